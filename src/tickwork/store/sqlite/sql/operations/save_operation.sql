-- Stores the progress of an operation, if nobody has changed it since it had the version `?3`.
UPDATE tickwork_operations
SET version = version + 1, state = ?4, done = ?5, failed = ?6, skipped = ?7, position = ?8, canaries = ?9,
    paced_until = ?10, due_at = ?11, reason = ?12, error = ?13, finished_at = ?14
WHERE id = ?2 AND version = ?3 AND finished_at IS NULL
    AND (?1 IS NULL OR tenant = ?1)
RETURNING version
