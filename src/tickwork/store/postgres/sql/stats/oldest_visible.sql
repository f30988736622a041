-- How many seconds the oldest visible message of a queue has waited, for one tenant or all. Skips from one
-- tenant and priority to the next.
WITH RECURSIVE lane AS (
    /*lanes*/
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
