-- Whether there is such a tenant.
SELECT EXISTS (SELECT FROM tickwork_tenants WHERE id = $1)
