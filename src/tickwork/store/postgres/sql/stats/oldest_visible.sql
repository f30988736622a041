-- How many seconds the oldest visible message of a queue has waited, for one tenant or all. Skips from one
-- tenant and priority to the next.
WITH RECURSIVE lane AS (
    SELECT first.tenant, first.priority
    FROM (
        SELECT tenant, priority FROM tickwork_messages
        WHERE queue_id = $2 AND state = 'ready' AND tenant >= coalesce($3::text, '')
        ORDER BY tenant, priority DESC LIMIT 1
    ) AS first
    WHERE $3::text IS NULL OR first.tenant = $3
    UNION ALL
    SELECT following.tenant, following.priority
    FROM lane CROSS JOIN LATERAL (
        (
            SELECT tenant, priority FROM tickwork_messages
            WHERE queue_id = $2 AND state = 'ready'
                AND tenant = lane.tenant AND priority < lane.priority
            ORDER BY priority DESC LIMIT 1
        )
        UNION ALL
        (
            SELECT tenant, priority FROM tickwork_messages
            WHERE queue_id = $2 AND state = 'ready'
                AND tenant > lane.tenant AND $3::text IS NULL
            ORDER BY tenant, priority DESC LIMIT 1
        )
        LIMIT 1
    ) AS following
)
SELECT extract(epoch FROM moment.now - min(first.visible_at))::float8
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
CROSS JOIN lane
CROSS JOIN LATERAL (
    SELECT visible_at FROM tickwork_messages
    WHERE queue_id = $2 AND state = 'ready' AND tenant = lane.tenant AND priority = lane.priority
    ORDER BY visible_at LIMIT 1
) AS first
WHERE first.visible_at <= moment.now
GROUP BY moment.now
