-- Expired pull leases, with the attempts and the maximum attempts of their messages.
SELECT m.place, m.attempts, q.max_retries, m.terms
FROM tickwork_messages AS m JOIN tickwork_queues AS q ON q.id = m.queue_id
WHERE m.state = 'claimed' AND m.lease_until IS NOT NULL AND m.lease_until <= ?1
ORDER BY m.lease_until
LIMIT ?2
