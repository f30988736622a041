-- Undelivered deliveries of an endpoint with their messages, if they have one, oldest first, after a given one.
-- (The plus keeps SQLite from reading all deliveries of the tenant.)
SELECT d.tenant, d.message_id AS id, m.queue_id, m.key, d.published_at, d.id AS delivery_id
FROM tickwork_deliveries AS d LEFT JOIN tickwork_messages AS m ON m.tenant = d.tenant AND m.id = d.message_id
WHERE d.endpoint_id = ?2 AND +d.tenant = ?1 AND d.delivered_at IS NULL
    AND (d.published_at, d.id) > (?3, ?4)
ORDER BY d.published_at, d.id
LIMIT ?5
