-- How many messages of each queue are in each state, for one tenant or all, and how many of the ready ones are
-- late. Each count stops at $4, and without it counts all. Each reads its own index; ready ones by tenant and
-- priority, so that delayed ones are found behind many visible ones.
SELECT counted.*
FROM unnest($2::uuid[]) WITH ORDINALITY AS queue (id, number)
CROSS JOIN LATERAL (
    WITH RECURSIVE moment AS (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
    lane AS (
        /*lanes of queue.id*/
    )
    SELECT
        (
            SELECT count(*) FROM (
                SELECT 1 FROM moment CROSS JOIN lane CROSS JOIN LATERAL (
                    SELECT 1 FROM tickwork_messages
                    WHERE queue_id = queue.id AND state = 'ready' AND tenant = lane.tenant
                        AND priority = lane.priority AND visible_at <= moment.now
                    LIMIT $4
                ) AS visible
                LIMIT $4
            ) AS counted
        ) AS ready,
        (
            SELECT count(*) FROM (
                SELECT 1 FROM moment CROSS JOIN lane CROSS JOIN LATERAL (
                    SELECT 1 FROM tickwork_messages
                    WHERE queue_id = queue.id AND state = 'ready' AND tenant = lane.tenant
                        AND priority = lane.priority AND visible_at > moment.now
                    LIMIT $4
                ) AS invisible
                LIMIT $4
            ) AS counted
        ) AS delayed,
        (
            SELECT count(*) FROM (
                SELECT 1 FROM tickwork_messages
                WHERE queue_id = queue.id AND state = 'claimed' AND ($3::text IS NULL OR tenant = $3)
                LIMIT $4
            ) AS counted
        ) AS claimed,
        (
            SELECT count(*) FROM (
                SELECT 1 FROM tickwork_messages
                WHERE queue_id = queue.id AND state = 'held' AND key IS NOT NULL
                    AND ($3::text IS NULL OR tenant = $3)
                LIMIT $4
            ) AS counted
        ) AS held,
        (
            SELECT count(*) FROM (
                SELECT 1 FROM tickwork_dead_letters
                WHERE queue_id = queue.id AND ($3::text IS NULL OR tenant = $3) AND resolution IS NULL
                LIMIT $4
            ) AS counted
        ) AS dead,
        (
            SELECT count(*) FROM (
                SELECT 1 FROM moment CROSS JOIN lane CROSS JOIN LATERAL (
                    SELECT 1 FROM tickwork_messages
                    WHERE queue_id = queue.id AND state = 'ready' AND tenant = lane.tenant
                        AND priority = lane.priority
                        AND visible_at <= moment.now - make_interval(secs => /*late_seconds*/)
                    LIMIT $4
                ) AS visible
                LIMIT $4
            ) AS counted
        ) AS late
) AS counted
ORDER BY queue.number
