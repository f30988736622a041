-- Messages of one tenant and correlation id that match a filter, between two ids.
SELECT /*columns*/, m.place FROM tickwork_messages AS m INDEXED BY tickwork_messages_correlation
WHERE m.tenant = ?2 AND m.correlation_id = ?9 AND m.id > ?11 AND m.id <= ?12
    AND m.queue_id = ?1
    AND (?3 IS NULL OR m.type = ?3)
    AND (?4 IS NULL OR m.sent_at <= ?4)
    AND (?6 IS NULL OR m.state = ?6)
    AND m.visible_at > ?7 AND m.visible_at <= ?8
    AND (?10 IS NULL OR m.key = ?10)
ORDER BY m.id
LIMIT ?5
