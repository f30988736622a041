-- Letters by tenant and id, oldest first.
SELECT l.id, l.tenant, l.queue_id, l.message_id, l.reason, l.error, l.fingerprint, l.attempts,
    l.failed_at, l.resolution, l.resolved_at, l.edited_at, l.replayed_as, l.key, l.event_id, l.type,
    l.source, l.correlation_id, l.causation_id, l.hops, l.priority, l.batch_id, l.schedule_id,
    l.slot, l.run, l.content_type, l.format, l.sent_at, l.body
FROM unnest($1::text[], $2::uuid[]) AS picked (tenant, id)
CROSS JOIN LATERAL (
    -- One probe of the key per letter, whatever the planner believes about the table.
    SELECT * FROM tickwork_dead_letters WHERE tenant = picked.tenant AND id = picked.id LIMIT 1
) AS l
ORDER BY l.failed_at, l.id
