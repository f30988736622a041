-- The endpoints of some tenants that name a system event, with the queue of deliveries; and the time.
SELECT e.id, e.tenant, e.settings, q.id AS queue_id, coalesce($1::timestamptz, clock_timestamp()) AS now
FROM tickwork_endpoints AS e
JOIN tickwork_queues AS q ON q.tenant IS NULL AND q.name = /*endpoints_queue*/
WHERE e.tenant = ANY ($2::text[]) AND e.settings::jsonb -> 'types' ?| ARRAY[/*system_types*/]
