-- Forgets a node whose messages have been given back.
DELETE FROM nodes WHERE id = ?1
