-- Replaces the body of an open letter.
UPDATE tickwork_dead_letters
SET body = $4, content_type = $5, edited_at = coalesce($1::timestamptz, clock_timestamp())
WHERE tenant = $2 AND id = $3 AND resolution IS NULL
RETURNING id, tenant, queue_id, message_id, reason, error, fingerprint, attempts, failed_at,
    resolution, resolved_at, edited_at, replayed_as, key, event_id, type, source, correlation_id,
    causation_id, hops, priority, batch_id, schedule_id, slot, run, content_type, format, sent_at,
    body
