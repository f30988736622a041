-- Replaces the secret of a key that is not revoked; the one before stays valid for some seconds.
UPDATE tickwork_api_keys
SET previous_hash = secret_hash, previous_until = ?1 + CAST(round(?5 * 1000000) AS INTEGER), secret_hash = ?4
WHERE id = ?2 AND (?3 IS NULL OR tenant = ?3) AND revoked_at IS NULL
RETURNING /*returned_api_key*/
