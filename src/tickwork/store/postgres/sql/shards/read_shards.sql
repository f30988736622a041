-- The leader of each shard.
SELECT shard, token, node, taken_at, tzdata, clock FROM tickwork_shards ORDER BY shard
