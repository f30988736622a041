-- Deletes nodes whose messages have been given back, and frees their shards. A shard that a plan of a dead node
-- still locks is left to the next hold.
WITH led AS MATERIALIZED (
    SELECT shard FROM tickwork_shards WHERE node = ANY ($1::uuid[]) ORDER BY shard FOR UPDATE SKIP LOCKED
),
freed AS (
    UPDATE tickwork_shards AS s
    SET node = NULL, taken_at = NULL, kept_until = NULL, freed_at = coalesce($2::timestamptz, clock_timestamp())
    FROM led
    WHERE s.shard = led.shard
)
DELETE FROM tickwork_nodes WHERE id = ANY ($1::uuid[])
