-- Ends the scheduler role of a node, so that the others lead all shards. Its lease continues.
UPDATE tickwork_nodes
SET roles = (SELECT json_group_array(value) FROM json_each(roles) WHERE value <> 'scheduler')
WHERE id = ?1
