-- Messages of one tenant and key that match a filter, between two of them, as they wait in line.
SELECT /*columns*/, m.place FROM tickwork_messages AS m INDEXED BY tickwork_messages_key
WHERE m.queue_id = ?1 AND m.tenant = ?2 AND m.key = ?9 AND m.place > ?10 AND m.place <= ?11
    AND (?3 IS NULL OR m.type = ?3)
    AND (?4 IS NULL OR m.sent_at <= ?4)
    AND (?6 IS NULL OR m.state = ?6)
    AND m.visible_at > ?7 AND m.visible_at <= ?8
ORDER BY m.place
LIMIT ?5
