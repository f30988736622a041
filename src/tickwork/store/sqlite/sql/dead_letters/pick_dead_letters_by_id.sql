-- Of the given dead letters, the rowids of those that are open and match a filter, in no order.
SELECT place, failed_at, id FROM tickwork_dead_letters
WHERE +queue_id = ?1 AND (?2 IS NULL OR tenant = ?2) AND resolution IS NULL
    AND (?3 IS NULL OR reason = ?3) AND (?4 IS NULL OR fingerprint = ?4) AND (?5 IS NULL OR type = ?5)
    AND (NOT ?6 OR type IS NULL)
    AND (+failed_at, +id) > (?7, ?8) AND (+failed_at, +id) <= (?9, ?10)
    AND id IN (/*each*/ ? /*each*/)
