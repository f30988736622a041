-- Marks the undelivered delivery as dead whose message was removed, unless that is its first one.
UPDATE tickwork_deliveries SET dead_at = ?3
WHERE message_id = ?2 AND +tenant = ?1 AND message_id <> id AND coalesce(delivered_at, dead_at) IS NULL
