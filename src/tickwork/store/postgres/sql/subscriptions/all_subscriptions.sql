-- Every subscription, up to a limit.
SELECT s.tenant, s.types, s.queue_id, q.name AS queue
FROM tickwork_subscriptions AS s JOIN tickwork_queues AS q ON q.id = s.queue_id
LIMIT $1
