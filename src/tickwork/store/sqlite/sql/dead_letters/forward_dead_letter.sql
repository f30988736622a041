-- Stores the message of a dead letter in another queue as an ordinary message; its key applies there. `?4` is
-- how it died, `?5` its idempotency key.
INSERT INTO tickwork_messages (
    tenant, queue_id, sent_at, visible_at, id, state, priority, key, event_id, type, source,
    correlation_id, causation_id, hops, content_type, format, death,
    idempotency_base, body
)
SELECT
    tenant, ?2, ?3, ?3, message_id,
    CASE WHEN EXISTS (
        SELECT 1 FROM tickwork_messages AS m
        WHERE m.queue_id = ?2 AND m.tenant = letter.tenant AND m.key = letter.key
    ) THEN 'held' ELSE 'ready' END,
    priority, key, event_id, type, source, correlation_id, causation_id, hops, content_type, format,
    ?4, ?5, body
FROM tickwork_dead_letters AS letter WHERE id = ?1
