-- Records the version of the time zone data that a shard's stored times come from, if its token is unchanged.
UPDATE tickwork_shards SET tzdata = ?3 WHERE shard = ?1 AND token = ?2 AND node IS NOT NULL
