-- The oldest time zone data from which stored times were computed.
SELECT min(tzdata) FROM tickwork_shards
