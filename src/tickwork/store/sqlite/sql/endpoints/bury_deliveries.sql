-- Marks the undelivered delivery as dead whose first message, which has its id, was removed.
UPDATE tickwork_deliveries SET dead_at = ?3
WHERE id = ?2 AND tenant = ?1 AND message_id = id AND delivered_at IS NULL AND dead_at IS NULL
