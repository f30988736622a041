-- Pull leases that ran out, with whether their message has attempts left.
SELECT m.place, m.attempts + 1 > q.max_retries
FROM tickwork_messages AS m JOIN tickwork_queues AS q ON q.id = m.queue_id
WHERE m.state = 'claimed' AND m.lease_until IS NOT NULL AND m.lease_until <= ?1
ORDER BY m.lease_until
LIMIT ?2
