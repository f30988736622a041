-- The first queues of a tenant and the shared ones after a given one, by name and tenant.
SELECT id, tenant, name, settings, paused
FROM (
    (
        SELECT id, tenant, name, settings, paused FROM tickwork_queues
        WHERE tenant = $1 AND name >= $2 AND (name > $2 OR tenant > $3)
        ORDER BY name
        LIMIT $4
    )
    UNION ALL
    (
        -- In the order of the index: the planner does not know that one tenant is one value if it is NULL.
        SELECT id, tenant, name, settings, paused FROM tickwork_queues
        WHERE tenant IS NULL AND name > $2
        ORDER BY tenant, name
        LIMIT $4
    )
) AS own_and_shared
ORDER BY name, tenant NULLS FIRST
LIMIT $4
