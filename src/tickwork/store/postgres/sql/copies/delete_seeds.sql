-- Deletes the rows that a migration inserted.
DELETE FROM /*table*/
