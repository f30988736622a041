-- Stores a new endpoint, unless its id or name is in use.
INSERT INTO tickwork_endpoints (id, tenant, name, settings, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT DO NOTHING
