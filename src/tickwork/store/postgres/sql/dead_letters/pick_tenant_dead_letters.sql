-- The oldest open dead letters of a tenant in a queue that match a filter, between two of them.
SELECT tenant, id
FROM tickwork_dead_letters
WHERE queue_id = $1 AND tenant = $2
    AND resolution IS NULL
    AND (failed_at, id) > ($3, $4) AND (failed_at, id) <= ($5, $6)
    AND ($7::text IS NULL OR reason = $7)
    AND ($8::text IS NULL OR fingerprint = $8)
    AND ($9::text IS NULL OR type = $9) AND (NOT $10::boolean OR type IS NULL)
ORDER BY failed_at, id
LIMIT $11
