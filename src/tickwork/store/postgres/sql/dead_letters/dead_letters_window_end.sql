-- The last of the next open dead letters of a queue, and how many they are.
SELECT looked_at.failed_at, looked_at.id, count(*) OVER () AS number
FROM (
    SELECT failed_at, id FROM tickwork_dead_letters
    WHERE queue_id = $1 AND resolution IS NULL
        AND (failed_at, id) > ($3, $4) AND (failed_at, id) <= ($5, $6)
    ORDER BY failed_at, id
    LIMIT $2
) AS looked_at
ORDER BY looked_at.failed_at DESC, looked_at.id DESC
LIMIT 1
