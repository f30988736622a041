-- The oldest open dead letters of a queue that match a filter, between two of them.
SELECT tenant, id
FROM tickwork_dead_letters
WHERE queue_id = $1
    AND resolution IS NULL
    AND (failed_at, id) > ($2, $3) AND (failed_at, id) <= ($8, $9)
    AND ($4::text IS NULL OR reason = $4)
    AND ($5::text IS NULL OR fingerprint = $5)
    AND ($6::text IS NULL OR type = $6) AND (NOT $10::boolean OR type IS NULL)
ORDER BY failed_at, id
LIMIT $7
