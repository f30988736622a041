-- The slots between two instants that succeeded, at least in part.
SELECT DISTINCT f.slot
FROM (
    SELECT id FROM tickwork_tenants WHERE $1::text IS NULL
    UNION ALL
    SELECT $1 WHERE $1 IS NOT NULL
) AS owner
CROSS JOIN LATERAL (
    SELECT slot FROM tickwork_firings
    WHERE tenant = owner.id AND schedule_id = $2 AND slot BETWEEN $3 AND $4
        AND status IN ('succeeded', 'partial')
) AS f
