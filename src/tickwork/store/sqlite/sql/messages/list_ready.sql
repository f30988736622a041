-- Ready and delayed messages of one tenant and priority that match a filter, between two rows.
SELECT /*columns*/, m.place FROM tickwork_messages AS m
WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.tenant = ?2 AND m.priority = ?6
    AND (m.visible_at, m.id) > (?7, ?8) AND (m.visible_at, m.id) <= (?9, ?10)
    AND (?3 IS NULL OR m.type = ?3)
    AND (?4 IS NULL OR m.sent_at <= ?4)
ORDER BY m.visible_at, m.id
LIMIT ?5
