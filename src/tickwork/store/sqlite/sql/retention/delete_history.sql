-- Deletes chunks by their places.
DELETE FROM tickwork_message_history WHERE place IN (SELECT value FROM json_each(?1))
