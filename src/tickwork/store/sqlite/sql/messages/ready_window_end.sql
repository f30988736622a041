-- The last of the next ready and delayed messages of one tenant and priority, and how many they are.
SELECT looked_at.visible_at, looked_at.id, count(*) OVER () AS number
FROM (
    SELECT m.visible_at, m.id FROM tickwork_messages AS m
    WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.tenant = ?2 AND m.priority = ?4
        AND (m.visible_at, m.id) > (?5, ?6) AND (m.visible_at, m.id) <= (?7, ?8)
    ORDER BY m.visible_at, m.id
    LIMIT ?3
) AS looked_at
ORDER BY looked_at.visible_at DESC, looked_at.id DESC
LIMIT 1
