-- Stores deliveries of one event, each once. The id of a delivery is that of its first message. Returns the
-- new ones.
INSERT INTO tickwork_deliveries (
    tenant, published_id, event_id, type, published_at, id, message_id, endpoint_id
)
SELECT ?1, ?2, ?3, ?4, ?5, id, id, endpoint_id
FROM (
    SELECT column1 AS id, column2 AS endpoint_id FROM (VALUES /*each*/ (?, ?) /*each*/)
)
WHERE true
ON CONFLICT DO NOTHING
RETURNING id
