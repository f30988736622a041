-- Stores a delivery whose message exists already, once. A replay gives it another message. If its last answer was
-- `?8`, it is waiting again. Returns whether it is still to be made.
INSERT INTO tickwork_deliveries (
    tenant, published_at, id, message_id, endpoint_id, published_id, event_id, type
)
VALUES (?1, ?2, ?3, ?4, ?5, ?3, ?6, ?7)
ON CONFLICT (id) DO UPDATE
SET message_id = excluded.message_id, delivered_at = iif(last_code = ?8, NULL, delivered_at), dead_at = NULL
RETURNING delivered_at IS NULL
