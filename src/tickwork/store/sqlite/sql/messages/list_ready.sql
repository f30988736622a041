-- Ready and delayed messages of one tenant and priority that match a filter, after a given one.
SELECT m.place, /*columns*/ FROM tickwork_messages AS m
WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.tenant = ?2 AND m.priority = ?8
    AND (m.visible_at, m.id) > (?9, ?10) AND m.visible_at <= ?11
    AND (?3 IS NULL OR m.type = ?3)
    AND (?4 IS NULL OR m.key = ?4)
    AND (?5 IS NULL OR m.correlation_id = ?5)
    AND (?6 IS NULL OR m.sent_at <= ?6)
ORDER BY m.visible_at, m.id
LIMIT ?7
