-- The subscriptions of a tenant, or the system's, by types and queue.
SELECT s.tenant, s.types, s.queue_id, q.name AS queue
FROM tickwork_subscriptions AS s JOIN tickwork_queues AS q ON q.id = s.queue_id
WHERE s.tenant IS NOT DISTINCT FROM $1::text
ORDER BY s.types, q.name, s.queue_id
