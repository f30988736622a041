-- Stores slots of a schedule as messages, with its current definition. Returns the bytes to count for a
-- capped queue. Does nothing if the queue was deleted.
WITH target AS MATERIALIZED (
    SELECT q.id, q.is_capped FROM tickwork_queues AS q
    WHERE q.id = (SELECT queue_id FROM tickwork_schedules WHERE tenant = $2 AND id = $3)
    FOR KEY SHARE
),
stored AS (
    INSERT INTO tickwork_messages (
        tenant, queue_id, id, priority, visible_at, sent_at, expires_at, key, type, source, schedule_id,
        slot, run, catch_up, due_at, grace_seconds, terms, idempotency_base, content_type, state, place,
        receiver, body
    )
    SELECT
        s.tenant, s.queue_id, fire.id,
        CASE WHEN fire.catch_up THEN greatest(s.priority - /*catch_up_step*/, 0) ELSE s.priority END,
        due.visible_at, $1, due.at + make_interval(secs => s.expires_after_seconds),
        CASE WHEN s.overlap IN (/*ordered*/) THEN 'schedule:' || s.id END,
        s.type, 'sch_' || replace(s.id::text, '-', ''), s.id, fire.slot, fire.run, fire.catch_up, due.at,
        CASE WHEN NOT fire.catch_up THEN s.grace_seconds END,
        CASE WHEN fire.is_last THEN (coalesce(s.terms, '{}')::jsonb || '{"is_last": true}')::text
            ELSE s.terms
        END,
        s.idempotency_key, s.content_type, fire.state, fire.place, s.receiver, s.body
    FROM target JOIN tickwork_schedules AS s ON s.queue_id = target.id,
        unnest($4::uuid[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[], $8::boolean[],
            $9::integer[], $10::boolean[], $11::text[], $12::bigint[])
            AS fire (id, slot, due_at, visible_at, catch_up, run, is_last, state, place)
    CROSS JOIN LATERAL (
        SELECT coalesce(fire.due_at, fire.slot) AS at,
            coalesce(fire.visible_at, fire.due_at, fire.slot) AS visible_at
    ) AS due
    WHERE s.tenant = $2 AND s.id = $3
    ON CONFLICT DO NOTHING
    RETURNING octet_length(body) AS bytes
)
SELECT target.id AS queue_id, target.is_capped, count(stored.bytes) AS messages,
    coalesce(sum(stored.bytes), 0) AS bytes
FROM target LEFT JOIN stored ON true
GROUP BY target.id, target.is_capped
