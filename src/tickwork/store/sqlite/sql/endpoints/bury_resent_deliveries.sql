-- Marks the undelivered delivery as dead whose message was removed, unless that is its first one.
-- One that arrived before it was sent again is delivered.
UPDATE tickwork_deliveries SET delivered_at = arrived_at, dead_at = iif(arrived_at IS NULL, ?3, NULL)
WHERE message_id = ?2 AND +tenant = ?1 AND message_id <> id AND coalesce(delivered_at, dead_at) IS NULL
