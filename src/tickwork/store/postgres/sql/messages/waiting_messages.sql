-- Some of the messages that waited when a purge started, with their keys: of one tenant, or of all for the
-- system. Blocked messages come first.
(
    SELECT tenant, queue_id, id, key FROM tickwork_messages
    WHERE queue_id = $1 AND state = 'held' AND key IS NOT NULL AND sent_at <= $3
        AND ($2::text IS NULL OR tenant = $2)
    LIMIT $4
)
UNION ALL
(
    SELECT tenant, queue_id, id, key FROM tickwork_messages
    WHERE queue_id = $1 AND state = 'ready' AND sent_at <= $3 AND ($2::text IS NULL OR tenant = $2)
    LIMIT $4
)
LIMIT $4
