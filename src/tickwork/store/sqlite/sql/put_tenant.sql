-- Creates a tenant or replaces its settings.
INSERT INTO tickwork_tenants (id, weight, suspended) VALUES (?1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET weight = excluded.weight, suspended = excluded.suspended
