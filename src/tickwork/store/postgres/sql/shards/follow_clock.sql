-- Moves the intervals of a locked shard by `$3` microseconds, and their planned slots that no worker has
-- claimed: an interval is elapsed time, whatever the clock shows. Schedules that started after the jump, or
-- start in the future, stay. Returns the moved schedules.
WITH known AS MATERIALIZED (
    SELECT tenant, id, rule::json AS rule FROM tickwork_schedules
    WHERE bucket / /*buckets_per_shard*/ = $2::integer AND status = 'active' AND look_at IS NOT NULL
    UNION ALL
    -- Schedules whose next slot is planned already and has none after it.
    SELECT tenant, id, rule::json FROM tickwork_schedules
    WHERE status = 'active' AND next_slot IS NULL AND bucket / /*buckets_per_shard*/ = $2::integer
),
picked AS MATERIALIZED (
    -- In the order of the keys, so that concurrent transactions do not deadlock.
    SELECT s.tenant, s.id
    FROM (
        SELECT tenant, id, rule -> 'timing' ->> 'mode' AS mode,
            make_interval(secs => (rule -> 'timing' ->> 'seconds')::float8) AS every,
            coalesce((rule ->> 'start_at')::timestamptz <= coalesce($1::timestamptz, clock_timestamp()), true)
                AS has_begun
        FROM known
        WHERE rule -> 'timing' ->> 'type' = 'interval'
            AND coalesce((rule ->> 'start_at')::timestamptz <= $4, true)
        ORDER BY tenant, id
    ) AS known
    CROSS JOIN LATERAL (
        SELECT tenant, id FROM tickwork_schedules
        WHERE tenant = known.tenant AND id = known.id AND status = 'active'
            AND NOT (
                updated_at >= $5 AND updated_at <= coalesce($1::timestamptz, clock_timestamp())
                -- A next slot farther away than the interval allows, planned ahead or not, is from before the jump.
                AND NOT (
                    $3::bigint < 0 AND known.has_begun AND next_slot IS NOT NULL AND next_slot
                        > coalesce($1::timestamptz, clock_timestamp()) + known.every + interval '1 minute'
                )
            )
            AND NOT (
                known.mode = 'fixed_delay' AND $3::bigint > 0 AND next_slot IS NOT NULL
                AND next_slot >= $5 + known.every
            )
        FOR UPDATE
    ) AS s
),
moved AS (
    UPDATE tickwork_schedules AS s
    SET version = s.version + 1, shift = s.shift + $3::bigint,
        next_slot = s.next_slot + $3::bigint * interval '1 microsecond',
        due_at = s.due_at + $3::bigint * interval '1 microsecond',
        look_at = s.look_at + $3::bigint * interval '1 microsecond',
        last_slot = s.last_slot + $3::bigint * interval '1 microsecond'
    FROM picked
    WHERE s.tenant = picked.tenant AND s.id = picked.id
    RETURNING s.tenant, s.id
),
planned AS MATERIALIZED (
    -- Skips rows that another transaction has locked.
    SELECT m.tenant, m.id
    FROM picked
    CROSS JOIN LATERAL (
        SELECT tenant, id FROM tickwork_messages
        WHERE tenant = picked.tenant AND schedule_id = picked.id AND schedule_id IS NOT NULL AND run = 0
            AND state <> 'claimed' AND claim = 0
        FOR UPDATE SKIP LOCKED
    ) AS m
),
carried AS (
    UPDATE tickwork_messages AS m
    SET visible_at = m.visible_at + $3::bigint * interval '1 microsecond',
        due_at = m.due_at + $3::bigint * interval '1 microsecond',
        expires_at = m.expires_at + $3::bigint * interval '1 microsecond',
        slot = CASE
            -- A slot whose new time is in use keeps its old one.
            WHEN EXISTS (
                SELECT FROM tickwork_messages AS other
                WHERE other.tenant = m.tenant AND other.schedule_id = m.schedule_id
                    AND other.schedule_id IS NOT NULL AND other.run = 0
                    AND other.slot = m.slot + $3::bigint * interval '1 microsecond'
            ) THEN m.slot
            ELSE m.slot + $3::bigint * interval '1 microsecond'
        END
    FROM planned
    WHERE m.tenant = planned.tenant AND m.id = planned.id
)
SELECT id FROM moved
