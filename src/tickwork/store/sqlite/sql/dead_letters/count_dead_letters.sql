-- How many open dead letters of a queue, of one tenant or of all, match a filter. (Every text sorts
-- before an empty blob.)
SELECT count(*) AS count
FROM tickwork_dead_letters INDEXED BY tickwork_dead_letters_group
WHERE queue_id = ?1 AND resolution IS NULL
    AND tenant >= coalesce(?2, '') AND tenant <= coalesce(?2, x'')
    AND (?3 IS NULL OR reason = ?3) AND (?4 IS NULL OR fingerprint = ?4) AND (?5 IS NULL OR type = ?5)
    AND (NOT ?6 OR type IS NULL)
    AND failed_at <= ?7
