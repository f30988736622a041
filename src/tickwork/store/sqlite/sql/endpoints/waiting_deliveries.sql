-- Undelivered deliveries of an endpoint, oldest first, after a given one.
-- (The plus keeps SQLite from reading all deliveries of the tenant.)
SELECT d.message_id, d.published_at, d.id FROM tickwork_deliveries AS d
WHERE d.endpoint_id = ?2 AND +d.tenant = ?1 AND d.delivered_at IS NULL
    AND (d.published_at, d.id) > (?3, ?4)
ORDER BY d.published_at, d.id
LIMIT ?5
