-- Notes the version of the zone data that the stored times of shards are from; a shard whose token is
-- another by now is left alone. Locked in a fixed order, as everywhere.
WITH granted AS MATERIALIZED (
    SELECT led.shard
    FROM (
        SELECT * FROM unnest($1::smallint[], $2::bigint[]) AS given (shard, token) ORDER BY shard
    ) AS given
    CROSS JOIN LATERAL (
        SELECT shard FROM tickwork_shards
        WHERE shard = given.shard AND token = given.token AND node IS NOT NULL
        FOR NO KEY UPDATE
    ) AS led
)
UPDATE tickwork_shards AS s SET tzdata = $3 FROM granted WHERE s.shard = granted.shard
RETURNING s.shard
