-- All rows of a table.
SELECT /*fields*/ FROM /*table*/
