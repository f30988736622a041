-- Remembers the message that the breaker of an endpoint pulled forward, if it found one, and when to look again.
UPDATE tickwork_endpoints
SET probe_at = ?2, probe_message_id = coalesce(?3, probe_message_id), probe_back_at = coalesce(?4, probe_back_at)
WHERE id = ?1
