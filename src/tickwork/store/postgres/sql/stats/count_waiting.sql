-- How many visible messages each queue has, of one tenant or all, and for how many seconds the oldest one has
-- waited. Each count stops at $4. Skips from one tenant and priority to the next.
SELECT waiting.messages, waiting.age_seconds
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
        ) AS messages,
        (
            SELECT extract(epoch FROM max(moment.now - first.visible_at))::float8
            FROM moment CROSS JOIN lane CROSS JOIN LATERAL (
                SELECT visible_at FROM tickwork_messages
                WHERE queue_id = queue.id AND state = 'ready' AND tenant = lane.tenant
                    AND priority = lane.priority AND visible_at <= moment.now
                ORDER BY visible_at LIMIT 1
            ) AS first
        ) AS age_seconds
) AS waiting
ORDER BY queue.number
