-- Resolves letters that are still open by the messages they become; returns the letters.
WITH picked AS MATERIALIZED (
    SELECT found.at, given.message_id
    FROM unnest($2::text[], $3::uuid[], $4::uuid[]) AS given (tenant, id, message_id)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_dead_letters
        WHERE tenant = given.tenant AND id = given.id LIMIT 1
    ) AS found
)
UPDATE tickwork_dead_letters AS l
SET resolution = CASE WHEN l.edited_at IS NULL THEN 'replayed' ELSE 'fixed' END,
    resolved_at = coalesce($1::timestamptz, clock_timestamp()), replayed_as = picked.message_id
FROM picked
WHERE l.ctid = picked.at AND l.resolution IS NULL
RETURNING l.id, l.tenant, l.queue_id, l.message_id, l.reason, l.error, l.fingerprint, l.attempts,
    l.failed_at, l.resolution, l.resolved_at, l.edited_at, l.replayed_as, l.key, l.event_id, l.type,
    l.source, l.correlation_id, l.causation_id, l.hops, l.priority, l.batch_id, l.schedule_id,
    l.slot, l.run, l.content_type, l.format, l.sent_at, l.body
