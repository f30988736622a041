-- The tenants and priorities that have a visible message. Skips from one to the next. Includes suspended
-- tenants, and those of a system that is paused, only on request.
WITH RECURSIVE lane AS (
    SELECT first.tenant, first.priority
    FROM (
        SELECT tenant, priority FROM tickwork_messages
        WHERE queue_id = $2 AND state = 'ready' AND tenant >= coalesce($3::text, $4)
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
SELECT lane.tenant, lane.priority, coalesce(owner.weight, 1) AS weight, owner.claimed_max
FROM lane LEFT JOIN tickwork_tenants AS owner ON owner.id = lane.tenant
WHERE ($6 OR owner.suspended IS NOT TRUE AND NOT EXISTS (SELECT FROM tickwork_meta WHERE paused_at IS NOT NULL))
AND EXISTS (
    SELECT FROM tickwork_messages
    WHERE queue_id = $2 AND state = 'ready' AND tenant = lane.tenant AND priority = lane.priority
        AND visible_at <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
)
LIMIT $5
