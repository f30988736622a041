-- Revokes a key; a revoked one keeps its time.
UPDATE tickwork_api_keys
SET revoked_at = coalesce(revoked_at, ?3)
WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)
