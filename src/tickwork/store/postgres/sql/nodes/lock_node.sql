-- Locks a node, so that no claim or takeover by it is in progress.
SELECT id FROM tickwork_nodes WHERE id = $1 FOR UPDATE
