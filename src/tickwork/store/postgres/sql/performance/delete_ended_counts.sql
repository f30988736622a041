-- Deletes notes of settlements by their places.
DELETE FROM tickwork_ended_counts WHERE ctid = ANY ($1::text[]::tid[])
