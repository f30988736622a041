-- The undelivered deliveries of an endpoint, newest first, before a given one; only waiting ones if `?6` is set.
-- (The plus keeps SQLite from reading all deliveries of the tenant.)
SELECT /*delivery*/ FROM tickwork_deliveries AS d
WHERE d.endpoint_id = ?2 AND +d.tenant = ?1 AND d.delivered_at IS NULL
    AND d.published_at >= ?5 AND (d.published_at, d.id) < (?3, ?4)
    AND (?6 IS NULL OR d.dead_at IS NULL)
ORDER BY d.published_at DESC, d.id DESC
LIMIT ?7
