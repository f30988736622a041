-- Schedules that are taken, without the slots that were taken back from them: they go back to the one that is
-- given, or stay where they are.
UPDATE tickwork_schedules AS s
SET next_slot = coalesce(given.slot, s.next_slot), due_at = coalesce(given.due_at, s.due_at),
    fired = s.fired - given.slots,
    last_slot = greatest(
        (
            SELECT slot FROM tickwork_messages AS m
            WHERE m.tenant = given.tenant AND m.schedule_id = given.id AND m.schedule_id IS NOT NULL
                AND m.run = 0 AND m.slot <= s.last_slot
            ORDER BY slot DESC LIMIT 1
        ),
        (
            SELECT slot FROM tickwork_firings AS f
            WHERE f.tenant = given.tenant AND f.schedule_id = given.id AND f.slot <= s.last_slot
                AND f.run = 0 AND f.attempt > 0
            ORDER BY slot DESC LIMIT 1
        )
    )
FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::integer[])
    AS given (tenant, id, slot, due_at, slots)
CROSS JOIN LATERAL (
    SELECT ctid AS at FROM tickwork_schedules WHERE tenant = given.tenant AND id = given.id LIMIT 1
) AS was
WHERE s.ctid = was.at
