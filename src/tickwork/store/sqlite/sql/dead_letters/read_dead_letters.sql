-- Dead letters by where they lie, oldest first.
SELECT place, id, tenant, queue_id, message_id, reason, error, fingerprint, attempts, failed_at, resolution,
    resolved_at, edited_at, replayed_as, key, event_id, type, source, correlation_id, causation_id,
    hops, priority, batch_id, schedule_id, slot, run, content_type, format, sent_at, body
FROM tickwork_dead_letters WHERE place IN (SELECT value FROM json_each(?1))
ORDER BY failed_at, id
