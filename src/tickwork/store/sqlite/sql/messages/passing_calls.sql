-- Of keys whose first message is a send that waits for its time: the rowid of the send, and that of the earliest direct
-- call, which may pass it.
WITH freed (queue_id, tenant, key) AS (VALUES /*each*/ (?, ?, ?) /*each*/),
found AS (
    SELECT
        (
            SELECT place FROM tickwork_messages
            WHERE queue_id = freed.queue_id AND tenant = freed.tenant AND key = freed.key
            ORDER BY place
            LIMIT 1
        ) AS first,
        (
            SELECT place FROM tickwork_messages INDEXED BY tickwork_messages_calls
            WHERE queue_id = freed.queue_id AND tenant = freed.tenant AND key = freed.key
                AND caller IS NOT NULL AND state = 'held'
            ORDER BY place
            LIMIT 1
        ) AS call
    FROM freed
)
SELECT found.first, found.call FROM found JOIN tickwork_messages AS m ON m.place = found.first
WHERE found.call IS NOT NULL AND m.caller IS NULL AND m.state <> 'claimed' AND m.visible_at > ?
