-- Expired pull leases, with the attempts and the maximum attempts of their messages.
SELECT m.tenant, m.id, m.claim, m.holder, m.schedule_id, m.run, m.terms, m.attempts, q.max_retries
FROM tickwork_messages AS m JOIN tickwork_queues AS q ON q.id = m.queue_id
WHERE m.state = 'claimed' AND m.lease_until <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
ORDER BY m.lease_until
LIMIT $2
FOR UPDATE OF m SKIP LOCKED
