-- Undelivered deliveries of an endpoint with their messages, if they have one, oldest first, after a given
-- one. (IS NOT DISTINCT FROM keeps the planner from reading all deliveries of the tenant.)
SELECT d.tenant, d.message_id AS id, m.queue_id, m.key, d.published_at, d.id AS delivery_id
FROM (
    SELECT * FROM tickwork_deliveries
    WHERE endpoint_id = $2 AND tenant IS NOT DISTINCT FROM $1 AND delivered_at IS NULL
        AND (published_at, id) > (coalesce($3::timestamptz, '-infinity'), $4::uuid)
    ORDER BY published_at, id
    LIMIT $5
) AS d
LEFT JOIN LATERAL (
    SELECT queue_id, key FROM tickwork_messages WHERE tenant = d.tenant AND id = d.message_id LIMIT 1
) AS m ON true
ORDER BY d.published_at, d.id
