-- One queue by name. A tenant's own queue takes precedence over a shared one.
SELECT id, tenant, name, settings, paused FROM tickwork_queues
WHERE coalesce(tenant, '') IN (coalesce(?1, ''), '') AND name = ?2
    AND (?1 IS NULL OR EXISTS (SELECT 1 FROM tickwork_tenants WHERE tickwork_tenants.id = ?1))
ORDER BY tenant IS NULL
LIMIT 1
