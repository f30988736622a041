-- The rowids of the open dead letters of a tenant in a queue that match a filter, oldest first, between
-- two of them.
SELECT place FROM tickwork_dead_letters
WHERE queue_id = ?1 AND tenant = ?2 AND resolution IS NULL
    AND (?3 IS NULL OR reason = ?3) AND (?4 IS NULL OR fingerprint = ?4) AND (?5 IS NULL OR type = ?5)
    AND (NOT ?6 OR type IS NULL)
    AND (failed_at, id) > (?7, ?8) AND (failed_at, id) <= (?9, ?10)
ORDER BY failed_at, id
LIMIT ?11
