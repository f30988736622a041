-- The ids of the hidden queues whose messages are deliveries.
SELECT id FROM tickwork_queues WHERE coalesce(tenant, '') = '' AND name IN (/*endpoints_queue*/, /*deliveries_queue*/)
