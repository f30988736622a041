-- Ends the scheduler role of a node, so that the others lead all shards. Its lease continues.
UPDATE tickwork_nodes SET roles = array_remove(roles, 'scheduler')
WHERE id = $1 AND 'scheduler' = ANY (roles)
