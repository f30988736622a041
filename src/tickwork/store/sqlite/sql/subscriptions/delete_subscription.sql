-- Deletes a subscription of a tenant, or of the system, by the name of its queue.
DELETE FROM tickwork_subscriptions
WHERE coalesce(tenant, '') = coalesce(?1, '') AND types = ?2 AND queue_id IN (
    SELECT id FROM tickwork_queues
    WHERE coalesce(tenant, '') IN ('', coalesce(?1, '')) AND name = ?3
)
