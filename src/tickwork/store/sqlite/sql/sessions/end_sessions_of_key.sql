-- Ends the sessions of a key of a tenant.
DELETE FROM tickwork_sessions WHERE tenant = ?1 AND key_id = ?2
