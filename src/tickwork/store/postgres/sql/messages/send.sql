-- Stores messages, each once; a group whose receipt is known was stored before. Nothing is stored
-- unless every queue is there, and has a cap just where the sender believes so.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
target AS MATERIALIZED (
    -- Locked, so that no queue is deleted while a message is on its way into it.
    SELECT id, is_capped FROM tickwork_queues WHERE id = ANY ($26::uuid[]) FOR KEY SHARE
),
receipt AS (
    INSERT INTO tickwork_receipts (id, accepted_at)
    SELECT $2, now FROM moment
    WHERE (SELECT count(*) FROM target WHERE is_capped = (id = ANY ($27::uuid[])))
        = cardinality($26::uuid[])
    ON CONFLICT (id) DO NOTHING
    RETURNING id
),
stored AS (
    INSERT INTO tickwork_messages (
        tenant, queue_id, id, priority, visible_at, sent_at, expires_at, key, event_id, type, source,
        correlation_id, causation_id, hops, batch_id, schedule_id, slot, run, catch_up, content_type,
        state, place, body
    )
    SELECT
        new.tenant, new.queue_id, new.id, new.priority,
        moment.now + make_interval(secs => new.delay_seconds), moment.now,
        moment.now + make_interval(secs => new.delay_seconds + new.expires_after_seconds),
        new.key, new.event_id, new.type, new.source, new.correlation_id, new.causation_id, new.hops,
        new.batch_id, new.schedule_id, new.slot, new.run, new.catch_up, new.content_type, new.state,
        new.place, new.body
    FROM receipt, moment, unnest(
        $3::text[], $4::uuid[], $5::uuid[], $6::smallint[], $7::float8[], $8::float8[], $9::text[],
        $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::smallint[], $16::uuid[],
        $17::uuid[], $18::timestamptz[], $19::integer[], $20::boolean[], $21::text[], $22::text[],
        $23::bigint[], $24::bytea[]
    ) AS new (
        tenant, queue_id, id, priority, delay_seconds, expires_after_seconds, key, event_id, type,
        source, correlation_id, causation_id, hops, batch_id, schedule_id, slot, run, catch_up,
        content_type, state, place, body
    )
    ON CONFLICT DO NOTHING
    RETURNING queue_id, tenant, id, CASE WHEN $25 THEN octet_length(body) END AS bytes
),
-- Which ones they were is said only if not all of them were stored, or somebody wants to know.
said AS MATERIALIZED (SELECT $25 OR count(*) < cardinality($5::uuid[]) AS which FROM stored)
SELECT target.id, target.is_capped, sum.messages, sum.bytes, sum.tenants, sum.ids
FROM target LEFT JOIN (
    SELECT
        queue_id, count(*) AS messages, sum(bytes) AS bytes,
        array_agg(tenant) FILTER (WHERE (SELECT which FROM said)) AS tenants,
        array_agg(id) FILTER (WHERE (SELECT which FROM said)) AS ids
    FROM stored GROUP BY queue_id
) AS sum ON sum.queue_id = target.id
