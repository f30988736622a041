-- The limit of queues with a cap, and the bytes that still fit into their backlog.
SELECT q.id, q.name, q.bytes_max, q.bytes_max - coalesce(sum(known.bytes), 0)::bigint AS room
FROM (
    SELECT id, name, (settings ->> 'backlog_bytes_max')::bigint AS bytes_max
    FROM tickwork_queues WHERE id = ANY ($1::uuid[]) AND is_capped
) AS q
LEFT JOIN tickwork_backlogs AS known ON known.queue_id = q.id
GROUP BY q.id, q.name, q.bytes_max
ORDER BY q.id
