-- Locks a shard that is led under this token until the transaction ends, so that no plan runs. Returns the
-- jumps of the clock that it has not followed, and the details of the last one.
SELECT meta.clock, meta.clock - led.clock AS behind, meta.clock_set_from, meta.clock_set_to
FROM tickwork_meta AS meta
CROSS JOIN LATERAL (
    SELECT clock FROM tickwork_shards WHERE shard = $1 AND token = $2 AND node IS NOT NULL FOR UPDATE
) AS led
