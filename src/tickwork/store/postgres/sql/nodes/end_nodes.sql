-- Deletes nodes whose messages have been given back.
DELETE FROM tickwork_nodes WHERE id = ANY ($1::uuid[])
