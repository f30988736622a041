-- The newest open dead letters of all queues, of one tenant or of all for the system, before one of them; and whether
-- they match a filter.
SELECT newest.tenant, newest.failed_at, newest.id, newest.is_selected
FROM (
    SELECT id FROM tickwork_tenants WHERE $1::text IS NULL
    UNION ALL
    SELECT $1 WHERE $1 IS NOT NULL
) AS owner
CROSS JOIN LATERAL (
    SELECT
        tenant, id, failed_at,
        ($4::text IS NULL OR reason = $4) AND ($5::text IS NULL OR fingerprint = $5)
            AND ($6::text IS NULL OR type IS NOT DISTINCT FROM $6) AS is_selected
    FROM tickwork_dead_letters
    WHERE tenant = owner.id AND resolution IS NULL AND (failed_at, id) < ($2::timestamptz, $3::uuid)
    ORDER BY failed_at DESC, id DESC
    LIMIT $7
) AS newest
ORDER BY newest.failed_at DESC, newest.id DESC
LIMIT $7
