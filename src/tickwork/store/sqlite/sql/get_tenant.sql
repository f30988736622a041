-- One tenant.
SELECT id, weight, suspended FROM tenants WHERE id = ?1
