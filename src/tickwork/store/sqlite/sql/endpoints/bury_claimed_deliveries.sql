-- Marks the undelivered delivery as dead whose endpoint was deleted while its message, in a queue, is claimed.
-- One that arrived before it was sent again is delivered.
UPDATE tickwork_deliveries SET delivered_at = arrived_at, dead_at = iif(arrived_at IS NULL, ?4, NULL)
WHERE id = ?1 AND delivered_at IS NULL AND EXISTS (
    SELECT 1 FROM tickwork_messages WHERE tenant = ?2 AND id = message_id AND queue_id = ?3
)
