-- The queues of a tenant and the shared ones, or all queues for the system, after a given one, by name and tenant.
SELECT id, tenant, name, settings, paused FROM tickwork_queues
WHERE ($1::text IS NULL OR tenant = $1 OR tenant IS NULL) AND (name, coalesce(tenant, '')) > ($2, $3)
ORDER BY name, tenant NULLS FIRST
LIMIT $4
