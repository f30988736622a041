-- Makes a node the leader of shards, each under a token higher than all before, including those of an earlier
-- epoch.
UPDATE tickwork_shards
SET taken_at = CASE WHEN node = ?2 THEN taken_at ELSE ?3 END, node = ?2, token = max(token + 1, ?4)
WHERE shard IN (SELECT value FROM json_each(?1))
