-- Gives up some of the shards that a node leads.
UPDATE tickwork_shards SET node = NULL, taken_at = NULL
WHERE shard IN (SELECT value FROM json_each(?1)) AND node = ?2
