-- The queues of a tenant and the shared ones; all queues for the system.
SELECT id, tenant, name, settings, paused FROM tickwork_queues
WHERE $1::text IS NULL OR tenant = $1 OR tenant IS NULL
ORDER BY name, tenant NULLS LAST
