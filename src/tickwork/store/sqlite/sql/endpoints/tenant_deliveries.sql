-- The deliveries of a tenant, newest first, before a given one; only delivered ones if `?6` is set.
SELECT /*delivery*/ FROM tickwork_deliveries AS d
WHERE d.tenant = ?1 AND (?6 IS NULL OR d.delivered_at IS NOT NULL)
    AND d.published_at >= ?5 AND (d.published_at, d.id) < (?3, ?4)
ORDER BY d.published_at DESC, d.id DESC
LIMIT ?7
