-- The tenants, receivers and priorities that have a visible message, from a tenant and its receiver on. Skips from one
-- to the next. Without suspended tenants, and those of a system that is paused.
WITH RECURSIVE lane AS (
    SELECT first.tenant, first.receiver, first.priority
    FROM (
        SELECT tenant, receiver, priority FROM tickwork_messages
        WHERE queue_id = $2 AND state = 'ready' AND receiver IS NOT NULL
            AND (tenant, receiver) >= ($4::text, $5::text)
            AND tenant >= coalesce($3::text, '')
        ORDER BY tenant, receiver, priority DESC LIMIT 1
    ) AS first
    WHERE $3::text IS NULL OR first.tenant = $3
    UNION ALL
    SELECT following.tenant, following.receiver, following.priority
    FROM lane CROSS JOIN LATERAL (
        (
            SELECT tenant, receiver, priority FROM tickwork_messages
            WHERE queue_id = $2 AND state = 'ready'
                AND tenant = lane.tenant AND receiver = lane.receiver AND priority < lane.priority
            ORDER BY priority DESC LIMIT 1
        )
        UNION ALL
        (
            SELECT tenant, receiver, priority FROM tickwork_messages
            WHERE queue_id = $2 AND state = 'ready'
                AND tenant = lane.tenant AND receiver > lane.receiver
            ORDER BY receiver, priority DESC LIMIT 1
        )
        UNION ALL
        (
            SELECT tenant, receiver, priority FROM tickwork_messages
            WHERE queue_id = $2 AND state = 'ready' AND receiver IS NOT NULL
                AND tenant > lane.tenant AND $3::text IS NULL
            ORDER BY tenant, receiver, priority DESC LIMIT 1
        )
        LIMIT 1
    ) AS following
)
SELECT lane.tenant, lane.priority, coalesce(owner.weight, 1) AS weight, owner.claimed_max, lane.receiver
FROM lane LEFT JOIN tickwork_tenants AS owner ON owner.id = lane.tenant
WHERE owner.suspended IS NOT TRUE AND NOT EXISTS (SELECT FROM tickwork_meta WHERE paused_at IS NOT NULL)
AND EXISTS (
    SELECT FROM tickwork_messages
    WHERE queue_id = $2 AND state = 'ready' AND tenant = lane.tenant AND receiver = lane.receiver
        AND priority = lane.priority AND visible_at <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
)
LIMIT $6
