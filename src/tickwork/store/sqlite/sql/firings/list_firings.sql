-- The records of a schedule of a tenant, newest first, before a given end and id.
SELECT /*firing*/ FROM tickwork_firings AS f
WHERE tenant = ?1 AND schedule_id = ?2 AND (finished_at, id) < (?5, ?6)
    AND (?4 IS NULL OR status = ?4)
ORDER BY finished_at DESC, id DESC
LIMIT ?3
