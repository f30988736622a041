-- How many planned slots of a schedule `withdrawable_slots` would return, and how many of them are
-- superseded.
SELECT count(*) AS slots, count(*) FILTER (WHERE run = 0 AND m.slot <= known.slot) AS passed
FROM tickwork_messages AS m
CROSS JOIN (
    SELECT greatest(
        (
            SELECT max(other.slot) FROM tickwork_messages AS other
            WHERE other.tenant = $2 AND other.schedule_id = $3 AND other.schedule_id IS NOT NULL
                AND other.run = 0 AND (
                    other.claim > 0
                    OR ($4 AND coalesce(other.due_at, other.visible_at) <= $1::timestamptz)
                )
        ),
        (
            SELECT coalesce(known.last_slot, known.slot) FROM tickwork_firings AS known
            WHERE known.tenant = $2 AND known.schedule_id = $3 AND known.run = 0
                AND known.slot <= $1::timestamptz
            ORDER BY known.slot DESC LIMIT 1
        ),
        '-infinity'
    ) AS slot,
    coalesce(
        (
            SELECT known.slot FROM tickwork_firings AS known
            WHERE known.tenant = $2 AND known.schedule_id = $3 AND known.run = 0
                AND known.slot > $1::timestamptz
            ORDER BY known.slot DESC LIMIT 1
        ),
        '-infinity'
    ) AS again
) AS known
WHERE tenant = $2 AND schedule_id = $3 AND schedule_id IS NOT NULL AND (run = 0 OR $5)
    AND state <> 'claimed' AND claim = 0
    AND NOT ($4 AND (coalesce(due_at, visible_at) <= $1::timestamptz OR m.slot <= greatest(known.slot, known.again)))
