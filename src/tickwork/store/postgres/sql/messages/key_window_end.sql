-- The last of the next messages of one tenant and key, and how many they are.
SELECT looked_at.place, count(*) OVER () AS number
FROM (
    SELECT m.place FROM tickwork_messages AS m
    WHERE m.queue_id = $1 AND m.tenant = $2 AND m.key = $4 AND m.place > $5 AND m.place <= $6
    ORDER BY m.place
    LIMIT $3
) AS looked_at
ORDER BY looked_at.place DESC
LIMIT 1
