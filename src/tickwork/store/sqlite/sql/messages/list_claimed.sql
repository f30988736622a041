-- Claimed messages of one tenant that match a filter, after a given one. Reads every claim.
SELECT m.place, /*columns*/ FROM tickwork_messages AS m INDEXED BY tickwork_messages_holder
WHERE m.queue_id = ?1 AND m.state = 'claimed' AND m.tenant = ?2 AND m.id > ?8
    AND (?3 IS NULL OR m.type = ?3)
    AND (?4 IS NULL OR m.key = ?4)
    AND (?5 IS NULL OR m.correlation_id = ?5)
    AND (?6 IS NULL OR m.sent_at <= ?6)
ORDER BY m.id
LIMIT ?7
