-- The leader of each shard, and the end of that node's lease.
SELECT s.shard, s.token, s.node, s.freed_at, s.kept_until, node.expires_at
FROM tickwork_shards AS s LEFT JOIN tickwork_nodes AS node ON node.id = s.node
ORDER BY s.shard
