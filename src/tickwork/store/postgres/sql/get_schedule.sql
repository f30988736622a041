-- One schedule by its id; for the system of whichever tenant it is.
SELECT /*schedule*/
FROM tickwork_tenants AS owner
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_schedules WHERE tenant = owner.id AND id = $2 LIMIT 1
) AS s
WHERE $1::text IS NULL OR owner.id = $1
LIMIT 1
