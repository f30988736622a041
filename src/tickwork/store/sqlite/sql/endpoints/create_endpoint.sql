-- Stores a new endpoint, unless its id or name is in use.
INSERT INTO tickwork_endpoints (id, tenant, name, settings, created_at, updated_at)
VALUES (?2, ?3, ?4, ?5, ?1, ?1)
ON CONFLICT DO NOTHING
