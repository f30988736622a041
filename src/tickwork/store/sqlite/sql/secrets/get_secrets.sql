-- Returns the valid values of a secret, the current one first.
SELECT value FROM tickwork_secrets
WHERE tenant = ?2 AND owner = ?3 AND field = ?4 AND (expires_at IS NULL OR expires_at > ?1)
ORDER BY number
