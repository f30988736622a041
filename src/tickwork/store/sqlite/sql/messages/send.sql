-- Stores messages without a key of one tenant in one queue, each once.
INSERT INTO tickwork_messages (
    tenant, queue_id, sent_at, batch_id, id, priority, visible_at, expires_at, key, event_id, type,
    source, correlation_id, causation_id, hops, schedule_id, slot, run, catch_up, content_type, body
)
VALUES /*each*/ (
    ?1, ?2, ?3, ?4, ?, ?, ?3 + ?, ?3 + ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
) /*each*/
ON CONFLICT DO NOTHING
