-- The dead letters of a queue, oldest first.
SELECT id, tenant, queue_id, message_id, reason, error, attempts, failed_at, key, event_id, type,
    source, correlation_id, causation_id, hops, priority, batch_id, schedule_id, slot, run,
    content_type, format, sent_at, body
FROM tickwork_dead_letters
WHERE queue_id = $1 AND ($2::text IS NULL OR tenant = $2)
ORDER BY failed_at, id
LIMIT $3
