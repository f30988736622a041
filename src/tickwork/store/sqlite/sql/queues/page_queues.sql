-- The first queues of a tenant and the shared ones after a given one, by name and tenant.
SELECT id, tenant, name, settings, paused
FROM (
    SELECT * FROM (
        SELECT id, tenant, name, settings, paused FROM tickwork_queues
        WHERE coalesce(tenant, '') = ?1 AND tenant IS NOT NULL AND name >= ?2 AND (name > ?2 OR tenant > ?3)
        ORDER BY name
        LIMIT ?4
    )
    UNION ALL
    SELECT * FROM (
        SELECT id, tenant, name, settings, paused FROM tickwork_queues
        WHERE coalesce(tenant, '') = '' AND name > ?2
        ORDER BY name
        LIMIT ?4
    )
)
ORDER BY name, tenant NULLS FIRST
LIMIT ?4
