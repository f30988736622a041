-- The nodes that may lead shards, and how long their holds take.
SELECT id, hold_seconds FROM tickwork_nodes
WHERE expires_at > ?1 AND EXISTS (SELECT 1 FROM json_each(roles) WHERE value = 'scheduler')
