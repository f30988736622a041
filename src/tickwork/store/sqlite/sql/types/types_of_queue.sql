-- The types of the queue of a name, of all apps. A tenant's own queue takes precedence over a shared one.
SELECT q.name AS queue, t.type, t.app, t.version, t.handlers, t.first_seen_at, t.last_seen_at, t.schema
FROM (
    SELECT id, name FROM tickwork_queues
    WHERE name = ?2 AND (tenant IS NULL OR tenant = ?1)
    ORDER BY tenant NULLS LAST
    LIMIT 1
) AS q
JOIN tickwork_types AS t ON t.queue_id = q.id
ORDER BY t.type, t.last_seen_at DESC, t.app
