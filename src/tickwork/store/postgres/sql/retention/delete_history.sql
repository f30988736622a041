-- Deletes chunks by their places.
DELETE FROM tickwork_message_history_default WHERE ctid = ANY ($1::text[]::tid[])
