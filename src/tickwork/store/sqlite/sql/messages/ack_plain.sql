-- Deletes messages by their places, which the same transaction has found to be held.
DELETE FROM tickwork_messages WHERE place IN (SELECT value FROM json_each(?1))
