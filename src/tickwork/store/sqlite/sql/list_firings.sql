-- The recorded attempts of a schedule, newest first.
SELECT id, tenant, schedule_id, slot, run, attempt, status, reason, due_at, started_at, finished_at,
    result_code, excerpt, channels, catch_up, count
FROM tickwork_firings
WHERE schedule_id = ?2 AND (?1 IS NULL OR tenant = ?1)
ORDER BY finished_at DESC, id DESC
LIMIT ?3
