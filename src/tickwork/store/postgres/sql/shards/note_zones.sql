-- Records the version of the time zone data that the stored times of shards come from. Skips a shard whose
-- token has changed. Locks in a fixed order.
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
