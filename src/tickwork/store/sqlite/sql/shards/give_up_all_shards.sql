-- Gives up all shards that a node leads.
UPDATE tickwork_shards SET node = NULL, taken_at = NULL, kept_until = NULL, freed_at = ?2 WHERE node = ?1
