-- Stores deliveries, each once. The id of a delivery is that of its first message. Returns the new ones.
INSERT INTO tickwork_deliveries (
    tenant, published_at, id, message_id, endpoint_id, published_id, event_id, type
)
SELECT ?1, ?2, column1, column1, column2, column3, column4, column5
FROM (VALUES /*each*/ (?, ?, ?, ?, ?) /*each*/)
WHERE true
ON CONFLICT DO NOTHING
RETURNING id
