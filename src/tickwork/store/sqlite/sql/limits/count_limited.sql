-- How many messages are claimed from the queues that share a limit.
SELECT count(*) FROM tickwork_queues AS q
CROSS JOIN tickwork_messages AS m ON m.queue_id = q.id AND m.state = 'claimed' AND m.is_counted = 1
WHERE q.settings ->> '$.limit' = ?2 AND coalesce(q.tenant, '') = coalesce(?1, '')
