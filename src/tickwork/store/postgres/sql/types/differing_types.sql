-- Types that several apps declare differently for one queue.
SELECT q.name AS queue, t.type, string_agg(t.app, ', ' ORDER BY t.app) AS apps
FROM tickwork_types AS t
JOIN tickwork_queues AS q ON q.id = t.queue_id
GROUP BY t.queue_id, q.name, t.type
HAVING count(DISTINCT t.version) > 1
ORDER BY q.name, t.type
LIMIT $1
