-- Returns runs of a tenant that were started, newest first, before a time of creation and uid.
SELECT /*run*/ FROM tickwork_runs AS r
WHERE r.tenant = ?1 AND r.parent_id IS NULL AND (?2 IS NULL OR r.workflow = ?2) AND (?3 IS NULL OR r.status = ?3)
    AND (NOT ?7 OR r.diverged_at IS NOT NULL)
    AND (?4 IS NULL OR (r.created_at, r.uid) < (?4, ?5))
ORDER BY r.created_at DESC, r.uid DESC
LIMIT ?6
