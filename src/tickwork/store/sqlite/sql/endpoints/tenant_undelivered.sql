-- The undelivered deliveries of a tenant, newest first, before a given one; only waiting ones if `?6` is set.
SELECT /*delivery*/ FROM tickwork_deliveries AS d
WHERE d.tenant = ?1 AND d.delivered_at IS NULL
    AND d.published_at >= ?5 AND (d.published_at, d.id) < (?3, ?4)
    AND (?6 IS NULL OR d.dead_at IS NULL)
ORDER BY d.published_at DESC, d.id DESC
LIMIT ?7
