-- One dead letter, open or resolved; of a tenant, or for the system of any.
SELECT id, tenant, queue_id, message_id, reason, error, fingerprint, attempts, failed_at,
    resolution, resolved_at, edited_at, replayed_as, key, event_id, type, source, correlation_id,
    causation_id, hops, priority, batch_id, schedule_id, slot, run, content_type, format, sent_at,
    body
FROM tickwork_dead_letters
WHERE id = $2 AND ($1::text IS NULL OR tenant = $1)
