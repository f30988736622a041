-- Forgets nodes whose messages have been given back.
DELETE FROM nodes WHERE id = ANY ($1::uuid[])
