-- Deletes the subscription of a tenant or the system with this queue name.
DELETE FROM tickwork_subscriptions AS s USING tickwork_queues AS q
WHERE s.tenant IS NOT DISTINCT FROM $1::text AND s.types = $2 AND q.id = s.queue_id AND q.name = $3
