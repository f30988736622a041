-- The tenants and priorities that have a visible message. Skips from one to the next. Includes suspended
-- tenants, and those of a system that is paused, only on request.
WITH RECURSIVE lane AS (
    /*lanes $4*/
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
