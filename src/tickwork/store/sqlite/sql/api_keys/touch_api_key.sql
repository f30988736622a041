-- Stores when a key was last used, unless that was stored a moment ago.
UPDATE tickwork_api_keys SET last_used_at = ?1
WHERE id = ?2 AND (last_used_at IS NULL OR last_used_at <= ?1 - CAST(round(?3 * 1000000) AS INTEGER))
