-- The newest open dead letters of a tenant in all queues, before one of them; and whether they match a filter.
SELECT
    tenant, failed_at, id,
    (?4 IS NULL OR reason = ?4) AND (?5 IS NULL OR fingerprint = ?5) AND (?6 IS NULL OR type IS ?6) AS is_selected
FROM tickwork_dead_letters INDEXED BY tickwork_dead_letters_newest
WHERE tenant = ?1 AND resolution IS NULL AND (failed_at, id) < (?2, ?3)
ORDER BY failed_at DESC, id DESC
LIMIT ?7
