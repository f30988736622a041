-- The last of the next claimed messages of one tenant and holder, and how many they are.
SELECT looked_at.id, count(*) OVER () AS number
FROM (
    SELECT m.id FROM tickwork_messages AS m INDEXED BY tickwork_messages_holder
    WHERE m.state = 'claimed' AND m.holder = ?4 AND m.queue_id = ?1 AND m.tenant = ?2
        AND m.id > ?5 AND m.id <= ?6
    ORDER BY m.id
    LIMIT ?3
) AS looked_at
ORDER BY looked_at.id DESC
LIMIT 1
