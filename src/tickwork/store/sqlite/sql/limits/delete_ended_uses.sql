-- Deletes uses of a limit that have ended.
DELETE FROM tickwork_limit_uses
WHERE tenant = ?1 AND name = ?2 AND NOT EXISTS (
    SELECT 1 FROM tickwork_messages AS m
    WHERE m.tenant = tickwork_limit_uses.tenant AND m.id = tickwork_limit_uses.message_id
        AND +m.claim = tickwork_limit_uses.claim AND +m.state = 'claimed'
)
