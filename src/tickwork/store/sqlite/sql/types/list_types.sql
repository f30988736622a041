-- The types that apps declare for the queues of a tenant and for shared ones: all, or those of a name, or of a queue.
SELECT q.name AS queue, t.type, t.app, t.version, t.handlers, t.first_seen_at, t.last_seen_at, t.schema
FROM tickwork_types AS t
JOIN tickwork_queues AS q ON q.id = t.queue_id
WHERE (?1 IS NULL OR q.tenant IS NULL OR q.tenant = ?1) AND (?2 IS NULL OR t.type = ?2)
    AND (?3 IS NULL OR q.name = ?3)
ORDER BY t.type, q.name, t.app
LIMIT ?4
