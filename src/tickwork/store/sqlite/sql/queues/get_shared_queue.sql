-- One shared queue by name, for a tenant that exists.
SELECT id, tenant, name, settings, paused, spent_until FROM tickwork_queues
WHERE coalesce(tenant, '') = '' AND name = ?2
    AND EXISTS (SELECT 1 FROM tickwork_tenants WHERE tickwork_tenants.id = ?1)
