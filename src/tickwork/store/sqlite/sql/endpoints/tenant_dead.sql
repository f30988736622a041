-- The dead deliveries of a tenant, newest first, before a given one.
SELECT /*delivery*/ FROM tickwork_deliveries AS d
WHERE d.tenant = ?1 AND d.dead_at IS NOT NULL
    AND d.published_at >= ?5 AND (d.published_at, d.id) < (?3, ?4)
ORDER BY d.published_at DESC, d.id DESC
LIMIT ?7
