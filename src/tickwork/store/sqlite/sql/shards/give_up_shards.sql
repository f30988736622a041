-- Gives up shards: those that a node leads, or whose leader is not alive. Each is free since its `since`.
UPDATE tickwork_shards SET node = NULL, taken_at = NULL, kept_until = NULL, freed_at = given.since
FROM (SELECT value ->> 0 AS shard, value ->> 1 AS since FROM json_each(?1)) AS given
WHERE tickwork_shards.shard = given.shard
