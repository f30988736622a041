-- Deletes a node whose messages have been given back.
DELETE FROM tickwork_nodes WHERE id = ?1
