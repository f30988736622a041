-- Creates shards without leaders. Their tokens are higher than all before.
WITH RECURSIVE new (shard) AS (SELECT 0 UNION ALL SELECT shard + 1 FROM new WHERE shard < ?1 - 1)
INSERT INTO tickwork_shards (shard, token, tzdata, clock) SELECT shard, ?2, ?3, ?4 FROM new
