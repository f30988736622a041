-- Claimed messages of one tenant and holder that match a filter, between two ids.
SELECT m.place, /*columns*/ FROM tickwork_messages AS m INDEXED BY tickwork_messages_holder
WHERE m.state = 'claimed' AND m.holder = ?6 AND m.queue_id = ?1 AND m.tenant = ?2
    AND m.id > ?7 AND m.id <= ?8
    AND (?3 IS NULL OR m.type = ?3)
    AND (?4 IS NULL OR m.sent_at <= ?4)
ORDER BY m.id
LIMIT ?5
