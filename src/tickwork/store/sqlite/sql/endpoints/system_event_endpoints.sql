-- The endpoints of a tenant that name a system event; none without the queue of deliveries.
SELECT e.id, e.settings
FROM tickwork_endpoints AS e
JOIN tickwork_queues AS q ON coalesce(q.tenant, '') = '' AND q.name = /*endpoints_queue*/
WHERE e.tenant = ?1 AND EXISTS (
    SELECT 1 FROM json_each(e.settings, '$.types') WHERE value IN (/*system_types*/)
)
