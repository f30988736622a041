-- The last of the next messages of one tenant and correlation id, in any queue, and how many they are.
SELECT looked_at.id, count(*) OVER () AS number
FROM (
    SELECT m.id FROM tickwork_messages AS m INDEXED BY tickwork_messages_correlation
    WHERE m.tenant = ?1 AND m.correlation_id = ?2 AND m.id > ?4 AND m.id <= ?5
    ORDER BY m.id
    LIMIT ?3
) AS looked_at
ORDER BY looked_at.id DESC
LIMIT 1
