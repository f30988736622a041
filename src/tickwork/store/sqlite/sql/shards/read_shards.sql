-- All shards, with the values of their grants.
SELECT shard, token, tzdata, clock FROM tickwork_shards ORDER BY shard
