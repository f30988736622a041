-- The leader of each shard, and the end of that node's lease, if it was not ended.
SELECT s.shard, s.token, s.node, s.taken_at, s.tzdata, s.clock, s.freed_at, s.kept_until,
    nullif(node.expires_at, 'epoch') AS expires_at
FROM tickwork_shards AS s LEFT JOIN tickwork_nodes AS node ON node.id = s.node
ORDER BY s.shard
