-- Locks the planned slots of schedules that were never claimed: all of them, or (`$4`) those that are not
-- due; extra runs only with `$5`. Skips messages that another transaction is claiming. `is_superseded`: this
-- slot or a later one is due, was claimed or has a record, so planning must not go back to it.
-- `has_future_record`: a record exists of a slot in the future, because the clock was set back. `$4` leaves
-- out both.
SELECT m.*
FROM (SELECT * FROM unnest($2::text[], $3::uuid[]) AS given (tenant, id) ORDER BY tenant, id) AS given
CROSS JOIN LATERAL (
    SELECT greatest(
        (
            SELECT max(other.slot) FROM tickwork_messages AS other
            WHERE other.tenant = given.tenant AND other.schedule_id = given.id AND other.schedule_id IS NOT NULL
                AND other.run = 0 AND (
                    other.claim > 0
                    OR ($4 AND coalesce(other.due_at, other.visible_at) <= $1::timestamptz)
                )
        ),
        (
            SELECT coalesce(known.last_slot, known.slot) FROM tickwork_firings AS known
            WHERE known.tenant = given.tenant AND known.schedule_id = given.id AND known.run = 0
                AND known.slot <= $1::timestamptz
            ORDER BY known.slot DESC LIMIT 1
        ),
        '-infinity'
    ) AS slot,
    coalesce(
        (
            SELECT known.slot FROM tickwork_firings AS known
            WHERE known.tenant = given.tenant AND known.schedule_id = given.id AND known.run = 0
                AND known.slot > $1::timestamptz
            ORDER BY known.slot DESC LIMIT 1
        ),
        '-infinity'
    ) AS again
    OFFSET 0  -- Makes the planner run this once, not for each slot.
) AS known
CROSS JOIN LATERAL (
    SELECT tenant, schedule_id, id, slot, coalesce(due_at, visible_at) AS due_at, queue_id, key, run,
        run = 0 AND slot <= known.slot AS is_superseded, run = 0 AND slot <= known.again AS has_future_record
    FROM tickwork_messages
    WHERE tenant = given.tenant AND schedule_id = given.id AND schedule_id IS NOT NULL AND (run = 0 OR $5)
        AND state <> 'claimed' AND claim = 0
        AND NOT ($4 AND (coalesce(due_at, visible_at) <= $1::timestamptz OR slot <= greatest(known.slot, known.again)))
    ORDER BY slot, run
    FOR UPDATE SKIP LOCKED
) AS m
