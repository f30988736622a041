-- The leader of each shard, or none if that node is not alive.
SELECT s.shard, s.token, node.id AS node, CASE WHEN node.id IS NOT NULL THEN s.taken_at END AS taken_at,
    s.tzdata
FROM tickwork_shards AS s
LEFT JOIN tickwork_nodes AS node
    ON node.id = s.node AND node.expires_at > coalesce($1::timestamptz, clock_timestamp())
ORDER BY s.shard
