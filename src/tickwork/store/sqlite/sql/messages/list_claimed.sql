-- Claimed messages of one tenant that match a filter, after a given one. Reads every claim.
SELECT /*columns*/, m.place FROM tickwork_messages AS m INDEXED BY tickwork_messages_holder
WHERE m.queue_id = ?1 AND m.state = 'claimed' AND m.tenant = ?2 AND m.id > ?6
    AND (?3 IS NULL OR m.type = ?3)
    AND (?4 IS NULL OR m.sent_at <= ?4)
ORDER BY m.id
LIMIT ?5
