-- Deletes all secrets of an owner.
DELETE FROM tickwork_secrets WHERE tenant = $1 AND owner = $2
