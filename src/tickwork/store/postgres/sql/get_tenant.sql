-- One tenant.
SELECT id, weight, suspended FROM tickwork_tenants WHERE id = $1
