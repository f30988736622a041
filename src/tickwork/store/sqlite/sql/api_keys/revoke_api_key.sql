-- Revokes a key; a revoked one keeps its time.
UPDATE tickwork_api_keys
SET revoked_at = coalesce(revoked_at, ?1)
WHERE id = ?2 AND (?3 IS NULL OR tenant = ?3)
RETURNING /*returned_api_key*/
