-- The tenants and priorities that have a visible message. Skips from one to the next. Includes suspended
-- tenants, and those of a system that is paused, only on request.
WITH RECURSIVE lane (place) AS (
    SELECT (
        SELECT place FROM tickwork_messages
        WHERE queue_id = ?1 AND state = 'ready' AND tenant >= coalesce(?2, ?4)
        ORDER BY tenant, priority DESC LIMIT 1
    )
    UNION ALL
    SELECT coalesce(
        (
            SELECT place FROM tickwork_messages
            WHERE queue_id = ?1 AND state = 'ready'
                AND tenant = last.tenant AND priority < last.priority
            ORDER BY priority DESC LIMIT 1
        ),
        (
            SELECT place FROM tickwork_messages
            WHERE queue_id = ?1 AND state = 'ready' AND tenant > last.tenant AND ?2 IS NULL
            ORDER BY tenant, priority DESC LIMIT 1
        )
    )
    FROM lane JOIN tickwork_messages AS last ON last.place = lane.place
    WHERE ?2 IS NULL OR last.tenant = ?2
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
