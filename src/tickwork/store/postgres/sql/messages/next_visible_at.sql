-- When the next message of a queue becomes visible, for one tenant or all. Skips from one tenant and priority
-- to the next.
WITH RECURSIVE lane AS (
    /*lanes*/
)
SELECT min(coming.visible_at)
FROM (SELECT tenant, priority FROM lane LIMIT $4) AS seen
CROSS JOIN LATERAL (
    SELECT visible_at FROM tickwork_messages
    WHERE queue_id = $2 AND state = 'ready' AND tenant = seen.tenant AND priority = seen.priority
        AND visible_at > (SELECT coalesce($1::timestamptz, clock_timestamp()))
    ORDER BY visible_at LIMIT 1
) AS coming
