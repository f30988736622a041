-- The token of each shard that somebody leads.
SELECT shard, token FROM tickwork_shards WHERE node IS NOT NULL
