-- Deletes uses of a limit that have ended.
DELETE FROM tickwork_limit_uses AS u
WHERE u.tenant = $1 AND u.name = $2 AND NOT EXISTS (
    SELECT 1 FROM tickwork_messages AS m
    WHERE m.tenant = u.tenant AND m.id = u.message_id
        AND (m.claim, m.state) IS NOT DISTINCT FROM (u.claim, 'claimed')
)
