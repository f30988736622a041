-- How many messages of each queue are in each state, for one tenant or all, and how many of the ready ones are
-- late. Each count stops at $4, and without it counts all. Each reads its own index; ready ones by tenant and
-- priority, so that delayed ones are found behind many visible ones.
WITH claimed AS MATERIALIZED (
    -- No index has the claimed ones of a queue. They are few, and read once for all queues.
    SELECT queue_id, count(*) AS messages FROM tickwork_messages
    WHERE state = 'claimed' AND queue_id = ANY ($2::uuid[]) AND ($3::text IS NULL OR tenant = $3)
    GROUP BY queue_id
)
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
            SELECT least(coalesce(sum(claimed.messages), 0), $4)::bigint FROM claimed
            WHERE claimed.queue_id = queue.id
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
                -- The order keeps the planner from an index without the queue.
                ORDER BY failed_at LIMIT $4
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
