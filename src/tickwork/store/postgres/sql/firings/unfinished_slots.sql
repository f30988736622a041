-- The slots between two instants that are messages: not due, ready or claimed, in any run.
SELECT DISTINCT m.slot
FROM (
    SELECT id FROM tickwork_tenants WHERE $1::text IS NULL
    UNION ALL
    SELECT $1 WHERE $1 IS NOT NULL
) AS owner
CROSS JOIN LATERAL (
    SELECT slot FROM tickwork_messages
    WHERE tenant = owner.id AND schedule_id = $2 AND schedule_id IS NOT NULL AND slot BETWEEN $3 AND $4
    OFFSET 0  -- Keeps it a lookup for each tenant, on tables without statistics too.
) AS m
