-- The subscriptions of a tenant, or of the system.
SELECT s.tenant, s.types, s.queue_id, q.name AS queue
FROM tickwork_subscriptions AS s JOIN tickwork_queues AS q ON q.id = s.queue_id
WHERE coalesce(s.tenant, '') = coalesce(?1, '')
ORDER BY s.types, q.name, q.tenant NULLS LAST
