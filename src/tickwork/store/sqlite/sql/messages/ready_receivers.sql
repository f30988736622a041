-- The tenants, receivers and priorities that have a visible message, from a tenant and its receiver on. Skips from one
-- to the next. Without suspended tenants, and those of a system that is paused.
WITH RECURSIVE lane (place) AS (
    SELECT (
        SELECT place FROM tickwork_messages
        WHERE queue_id = ?1 AND state = 'ready' AND receiver IS NOT NULL
            AND (tenant, receiver) >= (?4, ?5) AND tenant >= coalesce(?2, '')
        ORDER BY tenant, receiver, priority DESC LIMIT 1
    )
    UNION ALL
    SELECT coalesce(
        (
            SELECT place FROM tickwork_messages
            WHERE queue_id = ?1 AND state = 'ready'
                AND tenant = last.tenant AND receiver = last.receiver AND priority < last.priority
            ORDER BY priority DESC LIMIT 1
        ),
        (
            SELECT place FROM tickwork_messages
            WHERE queue_id = ?1 AND state = 'ready'
                AND tenant = last.tenant AND receiver > last.receiver
            ORDER BY receiver, priority DESC LIMIT 1
        ),
        (
            SELECT place FROM tickwork_messages
            WHERE queue_id = ?1 AND state = 'ready' AND receiver IS NOT NULL
                AND tenant > last.tenant AND ?2 IS NULL
            ORDER BY tenant, receiver, priority DESC LIMIT 1
        )
    )
    FROM lane JOIN tickwork_messages AS last ON last.place = lane.place
    WHERE ?2 IS NULL OR last.tenant = ?2
)
SELECT m.tenant, m.priority, coalesce(owner.weight, 1), owner.claimed_max, m.receiver
FROM lane JOIN tickwork_messages AS m ON m.place = lane.place
    LEFT JOIN tickwork_tenants AS owner ON owner.id = m.tenant
WHERE (?2 IS NULL OR m.tenant = ?2)
    AND owner.suspended IS NOT 1 AND NOT EXISTS (SELECT 1 FROM tickwork_meta WHERE paused_at IS NOT NULL)
    AND EXISTS (
    SELECT 1 FROM tickwork_messages
    WHERE queue_id = ?1 AND state = 'ready' AND tenant = m.tenant AND receiver = m.receiver
        AND priority = m.priority AND visible_at <= ?3
)
LIMIT ?6
