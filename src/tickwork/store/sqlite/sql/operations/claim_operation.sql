-- Takes the operation whose batch is due for longest, or the one named, so that nobody else begins the batch for `?2`
-- seconds.
UPDATE tickwork_operations
SET due_at = ?1 + CAST(?2 * 1000000 AS INTEGER), version = version + 1
WHERE id = (
    SELECT due.id FROM tickwork_operations AS due
    WHERE due.finished_at IS NULL AND due.state <> 'waiting' AND (?3 IS NULL OR due.tenant = ?3)
        AND (?4 IS NULL OR due.id = ?4)
        AND due.due_at <= ?1
    ORDER BY due.due_at
    LIMIT 1
)
RETURNING /*returned_operation*/
