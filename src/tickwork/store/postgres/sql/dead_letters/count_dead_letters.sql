-- How many open dead letters of a queue, of one tenant or of all, match a filter.
SELECT count(*) AS count
FROM tickwork_dead_letters
WHERE queue_id = $1 AND ($2::text IS NULL OR tenant = $2) AND resolution IS NULL
    AND ($3::text IS NULL OR reason = $3)
    AND ($4::text IS NULL OR fingerprint = $4)
    AND ($5::text IS NULL OR type = $5) AND (NOT $6::boolean OR type IS NULL)
    AND failed_at <= $7
