-- Undelivered deliveries of an endpoint that were published in a span, oldest first, after a given one.
-- (The plus keeps SQLite from reading all deliveries of the tenant.)
SELECT d.id FROM tickwork_deliveries AS d
WHERE d.endpoint_id = ?2 AND +d.tenant = ?1 AND d.delivered_at IS NULL
    AND (d.published_at, d.id) > (?3, ?4) AND d.published_at < ?5
ORDER BY d.published_at, d.id
LIMIT ?6
