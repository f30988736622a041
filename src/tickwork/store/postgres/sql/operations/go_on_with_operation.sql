-- Goes on with an operation whose canaries somebody has looked at.
UPDATE tickwork_operations
SET version = version + 1, state = 'running', due_at = coalesce($1::timestamptz, clock_timestamp())
WHERE id = $3 AND ($2::text IS NULL OR tenant = $2) AND state = 'waiting'
RETURNING /*returned_operation*/
