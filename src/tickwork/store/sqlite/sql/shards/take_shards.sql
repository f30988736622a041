-- Makes a node the leader of shards, each under a token higher than all before, including those of an earlier
-- epoch. It keeps them until a time, if one is given.
UPDATE tickwork_shards
SET taken_at = CASE WHEN node = ?2 THEN taken_at ELSE ?3 END, node = ?2, token = max(token + 1, ?4),
    freed_at = NULL, kept_until = given.kept_until
FROM (SELECT value ->> 0 AS shard, value ->> 1 AS kept_until FROM json_each(?1)) AS given
WHERE tickwork_shards.shard = given.shard
