-- The token of each shard that has a leader.
SELECT shard, token FROM tickwork_shards WHERE node IS NOT NULL
