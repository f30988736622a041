-- Stores a message with a key, once; it waits if there is an earlier one of its key.
INSERT INTO tickwork_messages (
    tenant, queue_id, sent_at, batch_id, id, priority, visible_at, expires_at, key, event_id, type,
    source, correlation_id, causation_id, hops, schedule_id, slot, run, catch_up, content_type, body,
    state
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?3 + ?7, ?3 + ?8, ?9, ?10, ?11,
    ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
    CASE WHEN EXISTS (
        SELECT 1 FROM tickwork_messages WHERE queue_id = ?2 AND tenant = ?1 AND key = ?9
    ) THEN 'held' ELSE 'ready' END
)
ON CONFLICT DO NOTHING
