-- The last of the next messages of one tenant, of the keys between two keys, and how many they are.
SELECT looked_at.key, looked_at.place, count(*) OVER () AS number
FROM (
    SELECT m.key, m.place FROM tickwork_messages AS m
    WHERE m.queue_id = $1 AND m.tenant = $2 AND m.key > $4 AND m.key < $5
    ORDER BY m.key, m.place
    LIMIT $3
) AS looked_at
ORDER BY looked_at.key DESC, looked_at.place DESC
LIMIT 1
