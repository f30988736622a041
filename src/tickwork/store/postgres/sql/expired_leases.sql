-- Pull leases that ran out, with whether their message has attempts left.
SELECT m.tenant, m.id, m.claim, m.holder, m.attempts + 1 > q.max_retries AS used_up
FROM tickwork_messages AS m JOIN tickwork_queues AS q ON q.id = m.queue_id
WHERE m.state = 'claimed' AND m.lease_until <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
ORDER BY m.lease_until
LIMIT $2
FOR UPDATE OF m SKIP LOCKED
