-- The active interval schedules of a shard that follow a jump of the clock. Leaves out those that started
-- after it or start in the future.
SELECT place
FROM (
    SELECT place, rule, next_slot, updated_at FROM tickwork_schedules
    WHERE bucket / /*buckets_per_shard*/ = ?1 AND look_at IS NOT NULL AND status = 'active'
    UNION ALL
    -- Schedules whose next slot is planned already and has none after it.
    SELECT place, rule, next_slot, updated_at FROM tickwork_schedules
    WHERE place >= 0 AND next_slot IS NULL AND status = 'active' AND +bucket / /*buckets_per_shard*/ = ?1
)
WHERE json_extract(rule, '$.timing.type') = 'interval'
    AND coalesce(CAST(strftime('%s', json_extract(rule, '$.start_at')) AS INTEGER) * 1000000 <= ?4, 1)
    AND NOT (
        updated_at >= ?5 AND updated_at <= ?2
        -- A next slot farther away than the interval allows, planned ahead or not, is from before the jump.
        AND NOT (
            ?3 < 0 AND next_slot IS NOT NULL
            AND next_slot > ?2 + (json_extract(rule, '$.timing.seconds') + 60) * 1000000
            AND coalesce(CAST(strftime('%s', json_extract(rule, '$.start_at')) AS INTEGER) * 1000000 <= ?2, 1)
        )
    )
    AND NOT (
        json_extract(rule, '$.timing.mode') = 'fixed_delay' AND ?3 > 0 AND next_slot IS NOT NULL
        AND next_slot >= ?5 + json_extract(rule, '$.timing.seconds') * 1000000
    )
