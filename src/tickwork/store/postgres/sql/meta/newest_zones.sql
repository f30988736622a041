-- The newest version of the time zone data that a shard's stored times come from.
SELECT max(tzdata) FROM tickwork_shards
