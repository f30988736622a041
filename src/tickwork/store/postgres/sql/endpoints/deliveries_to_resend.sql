-- Deliveries with what their next messages are made of. Without a published event there is
-- nothing to send; a delivery that has a message needs none.
SELECT d.id AS delivery_id, d.tenant, d.endpoint_id, e.settings, d.message_id, d.published_at,
    d.has_message, /*p.published*/
FROM (
    SELECT *, EXISTS (
            SELECT 1 FROM tickwork_messages AS m WHERE m.tenant = each.tenant AND m.id = each.message_id
        ) AS has_message
    FROM tickwork_deliveries AS each WHERE id = ANY ($1::uuid[])
) AS d
JOIN tickwork_endpoints AS e ON e.id = d.endpoint_id
LEFT JOIN LATERAL (
    SELECT * FROM tickwork_published WHERE tenant = d.tenant AND id = d.published_id AND NOT d.has_message LIMIT 1
) AS p ON true
