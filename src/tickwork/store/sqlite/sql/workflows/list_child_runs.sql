-- Returns the children of a run, newest first, before a time of creation and uid.
SELECT /*run*/ FROM tickwork_runs AS r
WHERE r.tenant = ?1 AND r.parent_id = ?7 AND (?2 IS NULL OR r.workflow = ?2) AND (?3 IS NULL OR r.status = ?3)
    AND (NOT ?8 OR r.diverged_at IS NOT NULL)
    AND (?4 IS NULL OR (r.created_at, r.uid) < (?4, ?5))
    AND (?9 IS NULL OR CASE ?9
        WHEN 'paused' THEN r.paused
        ELSE NOT r.paused AND r.control IS NULL AND r.diverged_at IS NULL AND (
            SELECT /*run_wait ?10*/
            FROM tickwork_messages AS m WHERE m.tenant = r.tenant AND m.id = r.message_id
        ) = ?9
    END)
ORDER BY r.created_at DESC, r.uid DESC
LIMIT ?6
