-- Who leads each shard.
SELECT shard, token, node, taken_at FROM tickwork_shards ORDER BY shard
