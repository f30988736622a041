-- Copies a message to the dead letters, with the reason why.
INSERT INTO tickwork_dead_letters (
    id, tenant, queue_id, message_id, reason, error, fingerprint, attempts, failed_at, key, event_id,
    type, source, correlation_id, causation_id, hops, priority, batch_id, schedule_id, slot, run,
    content_type, format, sent_at, body
)
SELECT
    ?2, tenant, queue_id, id, ?3, coalesce(?4, last_error), ?5, attempts + ?6, ?7, key, event_id,
    type, source, correlation_id, causation_id, hops, priority, batch_id, schedule_id, slot, run,
    content_type, format, sent_at, body
FROM tickwork_messages WHERE place = ?1
