-- Makes the current value of a secret the previous one, which is valid for some seconds.
UPDATE tickwork_secrets SET number = 1, expires_at = ?1 + CAST(round(?5 * 1000000) AS INTEGER)
WHERE tenant = ?2 AND owner = ?3 AND field = ?4 AND number = 0
