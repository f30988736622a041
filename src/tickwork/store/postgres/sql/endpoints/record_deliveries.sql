-- Stores deliveries, each once. The id of a delivery is that of its first message. Returns the new ones.
INSERT INTO tickwork_deliveries (
    tenant, published_at, id, message_id, endpoint_id, published_id, event_id, type
)
SELECT $1, $2, new.id, new.id, new.endpoint_id, new.published_id, new.event_id, new.type
FROM unnest($3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::text[])
    AS new (id, endpoint_id, published_id, event_id, type)
ORDER BY new.id -- In a fixed order, so that two publishers of one event do not deadlock.
ON CONFLICT DO NOTHING
RETURNING id
