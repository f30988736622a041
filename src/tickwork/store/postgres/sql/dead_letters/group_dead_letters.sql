-- The open dead letters of a queue grouped by cause, the largest group first.
SELECT reason, fingerprint, type, count(*) AS dead_letters, min(failed_at) AS first_failed_at,
    max(failed_at) AS last_failed_at
FROM tickwork_dead_letters
WHERE queue_id = $1 AND ($2::text IS NULL OR tenant = $2) AND resolution IS NULL
GROUP BY reason, fingerprint, type
ORDER BY count(*) DESC, reason, fingerprint COLLATE "C", type NULLS FIRST
LIMIT $3
