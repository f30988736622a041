-- The recorded attempts of a schedule, newest first, of a status, before a given record: of one tenant, or of
-- any tenant for the system.
SELECT /*firing*/
FROM (
    SELECT id FROM tickwork_tenants WHERE $1::text IS NULL
    UNION ALL
    SELECT $1 WHERE $1 IS NOT NULL
) AS owner
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_firings
    WHERE tenant = owner.id AND schedule_id = $2
        AND finished_at <= $5 AND (finished_at, id) < ($5, $6)
        AND ($4::text IS NULL OR status = $4)
    ORDER BY finished_at DESC, id DESC
    LIMIT $3
) AS f
ORDER BY f.finished_at DESC, f.id DESC
LIMIT $3
