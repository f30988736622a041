-- Whether a claim that is still valid has no attempt yet at its delivery, which belongs to the same tenant, or has no
-- delivery.
SELECT ?5 IS NULL OR EXISTS (
        SELECT 1 FROM tickwork_deliveries WHERE id = ?5 AND tenant = ?1
    ) AND NOT EXISTS (
        SELECT 1 FROM tickwork_delivery_attempts AS a
        WHERE a.delivery_id = ?5 AND a.message_id = ?2 AND a.claim = ?3
    ) AS is_new
FROM tickwork_messages AS m
WHERE m.tenant = ?1 AND m.id = ?2 AND m.claim = ?3 AND m.holder = ?4 AND m.state = 'claimed'
