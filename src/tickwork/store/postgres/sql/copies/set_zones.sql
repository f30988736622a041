-- Records the time zone data from which the stored times were computed.
UPDATE tickwork_shards SET tzdata = $1::text
