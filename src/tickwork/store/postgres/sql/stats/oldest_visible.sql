-- How many seconds the oldest visible message of each queue has waited, for one tenant or all. Skips from one
-- tenant and priority to the next.
SELECT queue.id AS queue_id, oldest.age_seconds
FROM unnest($2::uuid[]) AS queue (id)
CROSS JOIN LATERAL (
    WITH RECURSIVE lane AS (
        /*lanes of queue.id*/
    )
    SELECT extract(epoch FROM moment.now - min(first.visible_at))::float8 AS age_seconds
    FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
    CROSS JOIN lane
    CROSS JOIN LATERAL (
        SELECT visible_at FROM tickwork_messages
        WHERE queue_id = queue.id AND state = 'ready' AND tenant = lane.tenant AND priority = lane.priority
        ORDER BY visible_at LIMIT 1
    ) AS first
    WHERE first.visible_at <= moment.now
    GROUP BY moment.now
) AS oldest
