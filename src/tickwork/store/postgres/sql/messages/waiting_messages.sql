-- Some of what waited when a purge began, with its key: of one tenant, or for the system of all. Those
-- behind others of their key go first.
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
