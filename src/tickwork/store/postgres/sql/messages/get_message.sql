-- One message of a queue, or of any queue: of one tenant, or of any tenant for the system.
SELECT /*columns*/
FROM (
    SELECT id FROM tickwork_tenants WHERE $3::text IS NULL
    UNION ALL
    SELECT $3 WHERE $3 IS NOT NULL
) AS owner
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_messages WHERE tenant = owner.id AND id = $2 LIMIT 1
) AS m
WHERE $1::uuid IS NULL OR m.queue_id = $1
LIMIT 1