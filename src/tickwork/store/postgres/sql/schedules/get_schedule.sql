-- One schedule by id: of one tenant, or of any tenant for the system.
SELECT /*schedule*/
FROM (
    SELECT id FROM tickwork_tenants WHERE $1::text IS NULL
    UNION ALL
    SELECT $1 WHERE $1 IS NOT NULL
) AS owner
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_schedules WHERE tenant = owner.id AND id = $2 LIMIT 1
) AS s
LIMIT 1
