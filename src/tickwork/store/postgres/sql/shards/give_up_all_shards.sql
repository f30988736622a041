-- Gives up all shards that a node leads, locked in a fixed order.
WITH led AS MATERIALIZED (
    SELECT shard FROM tickwork_shards WHERE node = $2 ORDER BY shard FOR UPDATE
)
UPDATE tickwork_shards AS s
SET node = NULL, taken_at = NULL, kept_until = NULL, freed_at = coalesce($1::timestamptz, clock_timestamp())
FROM led
WHERE s.shard = led.shard
RETURNING s.shard
