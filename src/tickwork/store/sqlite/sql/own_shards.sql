-- The shards that a node leads, with their tokens.
SELECT shard, token FROM tickwork_shards WHERE node = ?1 ORDER BY shard
