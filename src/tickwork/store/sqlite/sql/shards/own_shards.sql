-- The shards that a node leads, with the values of their grants.
SELECT shard, token, tzdata, clock FROM tickwork_shards WHERE node = ?1 ORDER BY shard
