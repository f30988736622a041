-- The nodes that may lead shards.
SELECT id FROM tickwork_nodes WHERE expires_at > $1 AND 'scheduler' = ANY (roles)
