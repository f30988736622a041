-- Makes the current value of a secret the previous one, which is valid for some seconds.
UPDATE tickwork_secrets SET number = 1, expires_at = ?4
WHERE tenant = ?1 AND owner = ?2 AND field = ?3 AND number = 0
