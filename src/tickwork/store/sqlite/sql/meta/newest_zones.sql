-- The newest zone data that a shard's stored times are from.
SELECT max(tzdata) FROM tickwork_shards
