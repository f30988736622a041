-- Deletes deliveries past their retention, except for those that are waiting; returns their ids.
DELETE FROM tickwork_deliveries WHERE place IN (
    SELECT d.place FROM tickwork_tenants AS t
    CROSS JOIN tickwork_deliveries AS d ON d.tenant = t.id
    WHERE d.published_at <= ?1 AND NOT EXISTS (
        SELECT 1 FROM tickwork_messages AS m WHERE m.tenant = d.tenant AND m.id = d.message_id
    )
    LIMIT ?2
)
RETURNING id
