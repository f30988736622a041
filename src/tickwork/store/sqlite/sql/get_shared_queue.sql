-- One shared queue by name, for a tenant that exists.
SELECT id, tenant, name, settings, paused FROM queues
WHERE coalesce(tenant, '') = '' AND name = ?2
    AND EXISTS (SELECT 1 FROM tenants WHERE tenants.id = ?1)
