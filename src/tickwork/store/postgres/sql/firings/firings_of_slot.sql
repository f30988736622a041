-- The records of a slot, and the skipped runs that cover it, oldest first.
SELECT /*firing*/
FROM (
    SELECT id FROM tickwork_tenants WHERE $1::text IS NULL
    UNION ALL
    SELECT $1 WHERE $1 IS NOT NULL
) AS owner
CROSS JOIN LATERAL (
    (
        SELECT * FROM tickwork_firings
        WHERE tenant = owner.id AND schedule_id = $2 AND slot = $3
        LIMIT $4
    )
    UNION ALL
    (
        SELECT * FROM tickwork_firings
        WHERE tenant = owner.id AND schedule_id = $2 AND last_slot >= $3 AND last_slot IS NOT NULL
            AND slot < $3
        LIMIT $4
    )
) AS f
ORDER BY f.finished_at, f.id
LIMIT $4
