-- Gives up all shards that a node leads.
UPDATE tickwork_shards SET node = NULL, taken_at = NULL WHERE node = ?1
