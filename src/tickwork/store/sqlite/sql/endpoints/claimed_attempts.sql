-- Of these claims, those that are still valid: their numbers in the list, and whether the claim has no attempt
-- yet at its delivery, which belongs to the same tenant, or has no delivery.
SELECT held.number, held.delivery_id IS NULL OR EXISTS (
        SELECT 1 FROM tickwork_deliveries WHERE id = held.delivery_id AND tenant = held.tenant
    ) AND NOT EXISTS (
        SELECT 1 FROM tickwork_delivery_attempts AS a
        WHERE a.delivery_id = held.delivery_id AND a.message_id = held.id AND a.claim = held.claim
    )
FROM (
    SELECT column1 AS number, column2 AS tenant, column3 AS id, column4 AS claim, column5 AS holder,
        column6 AS delivery_id
    FROM (VALUES /*each*/ (?, ?, ?, ?, ?, ?) /*each*/)
) AS held
CROSS JOIN tickwork_messages AS m ON m.tenant = held.tenant AND m.id = held.id
WHERE m.claim = held.claim AND m.holder = held.holder AND m.state = 'claimed'
