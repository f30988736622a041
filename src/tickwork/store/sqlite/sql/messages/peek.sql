-- The next ready messages of one tenant and priority, oldest visible first.
SELECT /*columns*/ FROM tickwork_messages AS m
WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.tenant = ?2 AND m.priority = ?3
    AND m.visible_at <= ?4
ORDER BY m.visible_at, m.id
LIMIT ?5
