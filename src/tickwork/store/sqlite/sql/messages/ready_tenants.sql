-- The tenants and priorities that have a visible message. Skips from one to the next. Includes suspended
-- tenants, and those of a system that is paused, only on request.
WITH RECURSIVE lane (place) AS (
    /*lanes ?4*/
)
SELECT m.tenant, m.priority, coalesce(owner.weight, 1), owner.claimed_max
FROM lane JOIN tickwork_messages AS m ON m.place = lane.place
    LEFT JOIN tickwork_tenants AS owner ON owner.id = m.tenant
WHERE (?2 IS NULL OR m.tenant = ?2)
    AND (?6 OR owner.suspended IS NOT 1 AND NOT EXISTS (SELECT 1 FROM tickwork_meta WHERE paused_at IS NOT NULL))
    AND EXISTS (
    SELECT 1 FROM tickwork_messages
    WHERE queue_id = ?1 AND state = 'ready' AND tenant = m.tenant AND priority = m.priority
        AND visible_at <= ?3
)
LIMIT ?5
