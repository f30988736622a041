-- Takes the operation whose batch is due for longest, or the one named, so that nobody else begins the batch for `$2`
-- seconds.
UPDATE tickwork_operations
SET due_at = coalesce($1::timestamptz, clock_timestamp()) + make_interval(secs => $2), version = version + 1
WHERE id = (
    SELECT due.id FROM tickwork_operations AS due
    WHERE due.finished_at IS NULL AND due.state <> 'waiting' AND ($3::text IS NULL OR due.tenant = $3)
        AND ($4::uuid IS NULL OR due.id = $4)
        AND due.due_at <= coalesce($1::timestamptz, clock_timestamp())
    ORDER BY due.due_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
RETURNING /*returned_operation*/
