-- Notes the version of the zone data that a shard's stored times are from, while its token is this one.
UPDATE tickwork_shards SET tzdata = ?3 WHERE shard = ?1 AND token = ?2 AND node IS NOT NULL
