-- The shards that a node leads, with what a grant says of each.
SELECT shard, token, tzdata, clock FROM tickwork_shards WHERE node = ?1 ORDER BY shard
