-- The oldest visible message that must run with nothing beside it, of a tenant or of all; none of a
-- tenant that is suspended or has as many as it may (`?4`). As one text.
SELECT json_group_array(json_array(/*handed*/)) FROM (
    SELECT m.* FROM tickwork_messages AS m
    WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.lost >= 2 AND m.visible_at <= ?3
        AND (m.expires_at IS NULL OR m.expires_at > ?3) AND (?2 IS NULL OR m.tenant = ?2)
        AND m.format <= /*format*/
        AND NOT EXISTS (SELECT 1 FROM tickwork_tenants WHERE id = m.tenant AND suspended = 1)
        AND (?4 IS NULL OR ?4 > (
            SELECT count(*) FROM tickwork_messages
            WHERE queue_id = ?1 AND tenant = m.tenant AND state = 'claimed'
        ))
    ORDER BY m.visible_at, m.id
    LIMIT 1
) AS ready
