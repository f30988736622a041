-- Returns the valid values of a secret, the current one first.
SELECT value FROM tickwork_secrets
WHERE tenant = ?1 AND owner = ?2 AND field = ?3 AND (expires_at IS NULL OR expires_at > ?4)
ORDER BY number
