-- Marks the undelivered delivery as dead whose endpoint was deleted while its message, in a queue, is claimed.
UPDATE tickwork_deliveries SET dead_at = ?4
WHERE id = ?1 AND delivered_at IS NULL AND EXISTS (
    SELECT 1 FROM tickwork_messages WHERE tenant = ?2 AND id = message_id AND queue_id = ?3
)
