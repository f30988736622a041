-- Deletes the previous value of a secret.
DELETE FROM tickwork_secrets WHERE tenant = $1 AND owner = $2 AND field = $3 AND number = 1
