-- Adds a jump of the clock to the known sum, unless another jump came first or a lease from before the jump
-- is alive: had that time really elapsed, the lease would have expired. A node that took a shard after a jump
-- ahead, before it was known, already uses the new time: that shard has followed the jump. Leases from before
-- a jump back, also those of dead nodes, would last longer: they are shortened. Other leases last at most
-- `$6` seconds and expire soon enough.
WITH known AS (
    UPDATE tickwork_meta
    SET clock = clock + $2::bigint, clock_set_from = $4, clock_set_to = $5
    WHERE clock = $3::bigint AND NOT ($2::bigint > 0 AND EXISTS (
        SELECT FROM tickwork_nodes
        WHERE started_at <= $4 AND expires_at > coalesce($1::timestamptz, clock_timestamp())
    ))
    RETURNING clock
),
followed AS (
    UPDATE tickwork_shards AS s SET clock = s.clock + $2::bigint
    FROM known
    WHERE $2::bigint > 0 AND s.node IS NOT NULL AND s.taken_at >= $5
),
shortened AS (
    UPDATE tickwork_nodes AS node SET expires_at = node.expires_at + $2::bigint * interval '1 microsecond'
    FROM known
    WHERE $2::bigint < 0
        AND node.expires_at > coalesce($1::timestamptz, clock_timestamp()) + make_interval(secs => $6)
)
SELECT clock FROM known
