-- The patterns and queues of the subscriptions that apply to a tenant's messages.
SELECT s.types, q.id, q.tenant, q.name, q.settings, q.paused, q.spent_until
FROM tickwork_subscriptions AS s JOIN tickwork_queues AS q ON q.id = s.queue_id
WHERE coalesce(s.tenant, '') IN ('', ?1)
