-- One queue by name: a tenant's own queue, or a shared one for the system.
SELECT id, tenant, name, settings, paused, spent_until FROM tickwork_queues
WHERE coalesce(tenant, '') = coalesce(?1, '') AND tenant IS ?1 AND name = ?2
