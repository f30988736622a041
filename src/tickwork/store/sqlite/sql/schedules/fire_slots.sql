-- Stores slots as messages, each once, with the definitions of their schedules.
INSERT INTO tickwork_messages (
    tenant, queue_id, id, priority, visible_at, sent_at, due_at, grace_seconds, terms, expires_at,
    idempotency_base, type, source, schedule_id, slot, run, catch_up, content_type, receiver, body
)
SELECT
    s.tenant, s.queue_id, fire.id, max(s.priority - fire.catch_up * /*catch_up_step*/, 0), fire.visible_at, ?1,
    fire.due_at, CASE WHEN fire.catch_up THEN NULL ELSE s.grace_seconds END,
    coalesce(fire.terms, s.terms),
    fire.due_at + CAST(round(s.expires_after_seconds * 1000000) AS INTEGER),
    s.idempotency_key, s.type, fire.source, s.id, fire.slot, fire.run, fire.catch_up, s.content_type, s.receiver, s.body
FROM (
    SELECT column1 AS place, column2 AS id, column3 AS slot, column4 AS due_at,
        column5 AS visible_at, column6 AS catch_up, column7 AS run, column8 AS terms,
        column9 AS source
    FROM (VALUES /*each*/ (?, ?, ?, ?, ?, ?, ?, ?, ?) /*each*/)
) AS fire
CROSS JOIN tickwork_schedules AS s ON s.place = fire.place
WHERE true
ON CONFLICT DO NOTHING
