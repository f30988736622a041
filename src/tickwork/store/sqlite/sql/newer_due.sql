-- How many later slots of a schedule are messages that are due, counted up to a limit, and how many of these
-- were missed: handed out too late, or, still to be handed out for the first time, too late for that already.
SELECT count(*), coalesce(sum(is_missed), 0) FROM (
    SELECT catch_up OR (
        grace_seconds IS NOT NULL AND due_at + grace_seconds * 1000000 < ?4
        AND state <> 'claimed' AND attempts = 0 AND lost = 0
    ) AS is_missed
    FROM tickwork_messages
    WHERE tenant = ?1 AND schedule_id = ?2 AND schedule_id IS NOT NULL AND slot > ?3 AND run = 0
        AND coalesce(due_at, visible_at) <= ?4
    LIMIT ?5
)
