-- How many messages of a queue are in each state, for one tenant or all, how many of the ready ones are
-- late, and since when the oldest visible one is visible. Each count stops at ?4, and without it counts all.
-- Reads the rows of claimed messages, and for the others only indexes; ready ones by tenant and priority, so
-- that delayed ones are found behind many visible ones. (Every text sorts before an empty blob.)
WITH RECURSIVE lane (place) AS (
    /*lanes*/
), ready (tenant, priority) AS MATERIALIZED (
    SELECT first.tenant, first.priority
    FROM lane JOIN tickwork_messages AS first ON first.place = lane.place
    WHERE ?2 IS NULL OR first.tenant = ?2
)
SELECT
    (
        SELECT count(*) FROM (
            SELECT 1 FROM ready CROSS JOIN tickwork_messages AS m
            WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.tenant = ready.tenant
                AND m.priority = ready.priority AND m.visible_at <= ?3
            LIMIT coalesce(?4, -1)
        )
    ) AS visible,
    (
        SELECT count(*) FROM (
            SELECT 1 FROM ready CROSS JOIN tickwork_messages AS m
            WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.tenant = ready.tenant
                AND m.priority = ready.priority AND m.visible_at > ?3
            LIMIT coalesce(?4, -1)
        )
    ) AS delayed,
    (
        SELECT count(*) FROM (
            SELECT 1 FROM tickwork_messages INDEXED BY tickwork_messages_holder
            WHERE queue_id = ?1 AND state = 'claimed'
                AND tenant >= coalesce(?2, '') AND tenant <= coalesce(?2, x'')
            LIMIT coalesce(?4, -1)
        )
    ) AS claimed,
    (
        SELECT count(*) FROM (
            SELECT 1 FROM tickwork_messages
            WHERE queue_id = ?1 AND state = 'held'
                AND tenant >= coalesce(?2, '') AND tenant <= coalesce(?2, x'')
            LIMIT coalesce(?4, -1)
        )
    ) AS held,
    (
        SELECT count(*) FROM (
            SELECT 1 FROM tickwork_dead_letters INDEXED BY tickwork_dead_letters_own
            WHERE queue_id = ?1 AND resolution IS NULL
                AND tenant >= coalesce(?2, '') AND tenant <= coalesce(?2, x'')
            LIMIT coalesce(?4, -1)
        )
    ) AS dead,
    (
        SELECT count(*) FROM (
            SELECT 1 FROM ready CROSS JOIN tickwork_messages AS m
            WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.tenant = ready.tenant
                AND m.priority = ready.priority AND m.visible_at <= ?3 - /*late_seconds*/ * 1000000
            LIMIT coalesce(?4, -1)
        )
    ) AS late,
    (
        SELECT min((
            SELECT visible_at FROM tickwork_messages AS m
            WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.tenant = ready.tenant
                AND m.priority = ready.priority AND m.visible_at <= ?3
            ORDER BY visible_at LIMIT 1
        ))
        FROM ready
    ) AS oldest
