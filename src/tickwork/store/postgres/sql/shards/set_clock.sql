-- Adds a jump of the clock to those that are known, unless another one came first, or a lease that began
-- before it lives: had time passed over that, it would have run out. Who took a shard after a jump
-- ahead and before it was known went on in the new time: for that shard it is followed already. Leases from
-- before a jump back would last longer by it, those of the dead, too: they follow it. No other lasts for
-- longer than `$6` seconds, and one that does not is over soon enough.
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
