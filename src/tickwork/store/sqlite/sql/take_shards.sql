-- Lets a node lead shards, each under a token above all before, also those of an earlier epoch.
UPDATE tickwork_shards SET node = ?2, taken_at = ?3, token = max(token + 1, ?4 + 1)
WHERE shard IN (SELECT value FROM json_each(?1))
