-- The subscriptions that apply to the messages of some tenants: their own and the system's.
SELECT s.tenant, s.types, s.queue_id, q.name AS queue
FROM (
    SELECT tenant, types, queue_id FROM tickwork_subscriptions WHERE tenant = ANY ($1::text[])
    UNION ALL
    SELECT tenant, types, queue_id FROM tickwork_subscriptions WHERE tenant IS NULL
) AS s JOIN tickwork_queues AS q ON q.id = s.queue_id
