-- Locks shards in a fixed order, until the transaction ends.
SELECT s.shard
FROM (SELECT * FROM unnest($1::smallint[]) AS given (shard) ORDER BY shard) AS given
CROSS JOIN LATERAL (
    SELECT shard FROM tickwork_shards WHERE shard = given.shard FOR UPDATE
) AS s
