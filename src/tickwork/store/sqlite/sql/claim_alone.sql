-- The oldest visible message that must run with nothing beside it, of a tenant or of all.
SELECT m.place, /*columns*/ FROM tickwork_messages AS m
WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.lost >= 2 AND m.visible_at <= ?3
    AND (m.expires_at IS NULL OR m.expires_at > ?3) AND (?2 IS NULL OR m.tenant = ?2)
ORDER BY m.visible_at, m.id
LIMIT 1
