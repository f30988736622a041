-- Returns runs of a tenant that were started, newest first, before a time of creation and uid.
SELECT /*run*/ FROM tickwork_runs AS r
WHERE r.tenant = $1 AND r.parent_id IS NULL AND ($2::text IS NULL OR r.workflow = $2) AND ($3::text IS NULL OR r.status = $3)
    AND (NOT $7::boolean OR r.diverged_at IS NOT NULL)
    AND ($4::timestamptz IS NULL OR (r.created_at, r.uid) < ($4, $5::uuid))
    AND ($8::text IS NULL OR CASE $8
        WHEN 'paused' THEN r.paused
        ELSE NOT r.paused AND r.control IS NULL AND r.diverged_at IS NULL AND (
            SELECT /*run_wait $9*/
            FROM tickwork_messages AS m WHERE m.tenant = r.tenant AND m.id = r.message_id
        ) = $8
    END)
ORDER BY r.created_at DESC, r.uid DESC
LIMIT $6
