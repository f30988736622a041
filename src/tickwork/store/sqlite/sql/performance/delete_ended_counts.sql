-- Deletes notes of settlements by their places.
DELETE FROM tickwork_ended_counts WHERE place IN (SELECT value FROM json_each(?1))
