-- One queue by name. A tenant's own queue takes precedence over a shared one.
SELECT id, tenant, name, settings::text AS settings, paused FROM tickwork_queues
WHERE name = $2
    AND (tenant = $1 OR tenant IS NULL)
    AND ($1::text IS NULL OR EXISTS (SELECT FROM tickwork_tenants WHERE tickwork_tenants.id = $1))
ORDER BY tenant NULLS LAST
LIMIT 1
