-- Locks a tenant, so that its endpoints are counted and created by one transaction at a time.
SELECT id FROM tickwork_tenants WHERE id = $1 FOR NO KEY UPDATE
