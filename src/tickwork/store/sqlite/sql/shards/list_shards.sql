-- All shards, each with its token and its leader, if that node is alive.
SELECT shard, token, node.id, taken_at, tzdata
FROM tickwork_shards
    LEFT JOIN tickwork_nodes AS node ON node.id = tickwork_shards.node AND node.expires_at > ?1
ORDER BY shard
