-- The dead letter of a message, with the name of its queue.
SELECT
    l.tenant, l.message_id, l.queue_id, q.name, l.type, l.source, l.reason, l.error, l.attempts,
    l.sent_at, l.correlation_id, l.hops, l.schedule_id, l.slot, l.run, l.idempotency_base, l.failed_at,
    CASE WHEN substr(q.name, 1, length(/*entities_prefix*/)) = /*entities_prefix*/ THEN l.body END
FROM tickwork_dead_letters AS l JOIN tickwork_queues AS q ON q.id = l.queue_id
WHERE l.id = ?1
