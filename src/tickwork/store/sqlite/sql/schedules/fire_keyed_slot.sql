-- Stores a slot as a message, once. It is blocked if there is an earlier message of its key.
INSERT INTO tickwork_messages (
    tenant, queue_id, id, priority, visible_at, sent_at, due_at, grace_seconds, terms, expires_at,
    idempotency_base, type, source, schedule_id, slot, run, catch_up, content_type, receiver, body, key, state
)
SELECT
    s.tenant, s.queue_id, ?3, max(s.priority - ?7 * /*catch_up_step*/, 0), ?6, ?1,
    ?5, CASE WHEN ?7 THEN NULL ELSE s.grace_seconds END,
    coalesce(?9, s.terms),
    ?5 + CAST(round(s.expires_after_seconds * 1000000) AS INTEGER),
    s.idempotency_key, s.type, ?10, s.id, ?4, ?8, ?7, s.content_type, s.receiver, s.body, ?11,
    CASE WHEN EXISTS (
        SELECT 1 FROM tickwork_messages AS m
        WHERE m.queue_id = s.queue_id AND m.tenant = s.tenant AND m.key = ?11
    ) THEN 'held' ELSE 'ready' END
FROM tickwork_schedules AS s WHERE s.place = ?2
ON CONFLICT DO NOTHING
