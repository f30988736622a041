-- Moves what is still held to the dead letters, each with its reason.
WITH gone AS (
    DELETE FROM tickwork_messages AS m
    USING (
        SELECT found.at, held.*
        FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::uuid[], $6::uuid[], $7::text[],
            $8::text[], $9::smallint[])
            AS held (tenant, id, claim, holder, letter, reason, error, counted)
        CROSS JOIN LATERAL (
            SELECT ctid AS at FROM tickwork_messages WHERE tenant = held.tenant AND id = held.id LIMIT 1
        ) AS found
    ) AS held
    WHERE m.ctid = held.at AND m.claim = held.claim AND m.holder = held.holder
    RETURNING m.*, held.letter, held.reason, held.error, m.attempts + held.counted AS used
)
INSERT INTO tickwork_dead_letters (
    id, tenant, queue_id, message_id, reason, error, attempts, failed_at, key, event_id, type,
    source, correlation_id, causation_id, hops, priority, batch_id, schedule_id, slot, run,
    content_type, format, sent_at, body
)
SELECT
    letter, tenant, queue_id, id, reason, coalesce(error, last_error), used,
    coalesce($1::timestamptz, clock_timestamp()), key, event_id, type, source, correlation_id,
    causation_id, hops, priority, batch_id, schedule_id, slot, run, content_type, format, sent_at,
    body
FROM gone
RETURNING id
