-- The recorded attempts of a schedule, newest first; for the system of whichever tenant it is.
SELECT f.id, f.tenant, f.schedule_id, f.slot, f.run, f.attempt, f.status, f.reason, f.due_at,
    f.started_at, f.finished_at, f.result_code, f.excerpt, f.channels, f.catch_up, f.count
FROM tickwork_tenants AS owner
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_firings
    WHERE tenant = owner.id AND schedule_id = $2
    ORDER BY finished_at DESC, id DESC
    LIMIT $3
) AS f
WHERE $1::text IS NULL OR owner.id = $1
ORDER BY f.finished_at DESC, f.id DESC
LIMIT $3
