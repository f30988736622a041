-- Replaces the secret of a key that is not revoked; the one before stays valid until a time.
UPDATE tickwork_api_keys
SET previous_hash = secret_hash, previous_until = ?4, secret_hash = ?3
WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2) AND revoked_at IS NULL
