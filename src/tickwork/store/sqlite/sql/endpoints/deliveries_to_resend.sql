-- A delivery with what its next message is made of. Without a published event there is nothing to send; a
-- delivery that has a message needs none.
SELECT d.id AS delivery_id, d.tenant, d.endpoint_id, e.settings, d.message_id, d.published_at,
    EXISTS (SELECT 1 FROM tickwork_messages WHERE tenant = d.tenant AND id = d.message_id) AS has_message,
    /*p.published*/
FROM tickwork_deliveries AS d
CROSS JOIN tickwork_endpoints AS e ON e.id = d.endpoint_id
LEFT JOIN tickwork_published AS p ON p.tenant = d.tenant AND p.id = d.published_id
WHERE d.id = ?1
