-- The last of the next open dead letters of a tenant in a queue, and how many they are.
SELECT looked_at.failed_at, looked_at.id, count(*) OVER () AS number
FROM (
    SELECT failed_at, id FROM tickwork_dead_letters
    WHERE queue_id = $1 AND tenant = $2 AND resolution IS NULL
        AND (failed_at, id) > ($4, $5) AND (failed_at, id) <= ($6, $7)
    ORDER BY failed_at, id
    LIMIT $3
) AS looked_at
ORDER BY looked_at.failed_at DESC, looked_at.id DESC
LIMIT 1
