-- How many messages are claimed from the queues that share a limit.
SELECT count(*) FROM tickwork_queues AS q
JOIN tickwork_messages AS m ON m.queue_id = q.id AND m.state = 'claimed' AND m.is_counted
WHERE q.settings ->> 'limit' = $2 AND coalesce(q.tenant, '') = coalesce($1::text, '')
