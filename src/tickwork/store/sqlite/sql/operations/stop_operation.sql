-- Stops an operation; a batch that is running then writes nothing.
UPDATE tickwork_operations
SET version = version + 1, state = 'stopped', reason = 'stopped', stopped_by = ?4,
    finished_at = ?1
WHERE id = ?3 AND (?2 IS NULL OR tenant = ?2) AND finished_at IS NULL
RETURNING /*returned_operation*/
