-- The given dead letter, if it is open, belongs to the queue and the tenant (or any tenant), and matches a filter.
SELECT tenant, id, failed_at FROM tickwork_dead_letters
WHERE id = ?12 AND +queue_id = ?1 AND (?2 IS NULL OR tenant = ?2) AND resolution IS NULL
    AND (+failed_at, +id) > (?3, ?4) AND (+failed_at, +id) <= (?5, ?6)
    AND (?7 IS NULL OR reason = ?7) AND (?8 IS NULL OR fingerprint = ?8) AND (?9 IS NULL OR type = ?9)
    AND (NOT ?10 OR type IS NULL)
LIMIT ?11
