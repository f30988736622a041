-- Stores when a key was last used, unless that was stored a moment ago.
UPDATE tickwork_api_keys SET last_used_at = ?2
WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at <= ?3)
