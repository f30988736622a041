-- Stores deliveries of one event, each once. The id of a delivery is that of its first message. Returns the
-- new ones.
INSERT INTO tickwork_deliveries (
    tenant, published_id, event_id, type, published_at, id, message_id, endpoint_id
)
SELECT $1, $2, $3, $4, $5, new.id, new.id, new.endpoint_id
FROM unnest($6::uuid[], $7::uuid[]) AS new (id, endpoint_id)
ORDER BY new.id -- In a fixed order, so that two publishers of one event do not deadlock.
ON CONFLICT DO NOTHING
RETURNING id
