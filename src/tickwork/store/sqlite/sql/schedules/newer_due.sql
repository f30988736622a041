-- How many later slots of a schedule are due or were handled, counted up to a limit of each, and how many of these
-- were missed: handed out too late, or, still to be handed out for the first time, too late for that already.
SELECT count(*), coalesce(sum(is_missed), 0) FROM (
    SELECT * FROM (
        SELECT slot, catch_up OR (
            grace_seconds IS NOT NULL AND due_at + grace_seconds * 1000000 < ?4
            AND state <> 'claimed' AND attempts = 0 AND lost = 0
        ) AS is_missed
        FROM tickwork_messages
        WHERE tenant = ?1 AND schedule_id = ?2 AND schedule_id IS NOT NULL AND slot > ?3 AND run = 0
            AND coalesce(due_at, visible_at) <= ?4
        LIMIT ?5
    )
    UNION
    SELECT * FROM (
        SELECT slot, catch_up FROM tickwork_firings
        WHERE tenant = ?1 AND schedule_id = ?2 AND slot > ?3 AND run = 0
            AND status IN ('succeeded', 'partial', 'failed', 'dead')
        LIMIT ?5
    )
)
