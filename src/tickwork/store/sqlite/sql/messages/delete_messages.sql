-- Deletes messages by rowid.
DELETE FROM tickwork_messages WHERE place IN (SELECT value FROM json_each(?1))
RETURNING /*removed*/
