-- Stores messages, each once. A group whose receipt is known was stored before. Stores nothing unless every
-- queue exists, and the sender knows which of them have a cap.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
target AS MATERIALIZED (
    -- Locked, so that no queue is deleted while a message is being stored in it.
    SELECT id, is_capped FROM tickwork_queues WHERE id = ANY ($4::uuid[]) FOR KEY SHARE
),
receipt AS (
    INSERT INTO tickwork_receipts (id, accepted_at)
    SELECT $2, now FROM moment
    WHERE (SELECT count(*) FROM target WHERE is_capped = (id = ANY ($5::uuid[])))
        = cardinality($4::uuid[])
    ON CONFLICT (id) DO NOTHING
    RETURNING id, xmin::text::bigint AS written_by
),
stored AS (
    INSERT INTO tickwork_messages (
        tenant, queue_id, batch_id, state, place, sent_at, visible_at, expires_at, /*sent*/
    )
    SELECT
        new.tenant, new.queue_id, new.batch_id, new.state, new.place, moment.now,
        moment.now + make_interval(secs => new.delay_seconds),
        moment.now + make_interval(secs => new.delay_seconds + new.expires_after_seconds),
        /*new.sent*/
    FROM receipt, moment, unnest(
        $6::text[], $7::uuid[], $8::uuid[], $9::text[], $10::bigint[], $11::float8[], $12::float8[],
        /*sent_arrays $13*/
    ) AS new (
        tenant, queue_id, batch_id, state, place, delay_seconds, expires_after_seconds, /*sent*/
    )
    ON CONFLICT DO NOTHING
    RETURNING queue_id, tenant, id, CASE WHEN $3 THEN octet_length(body) END AS bytes
),
-- Returns the stored ids only if some were not stored, or if the caller asks for them.
said AS MATERIALIZED (SELECT $3 OR count(*) < cardinality($6::text[]) AS which FROM stored)
SELECT target.id, target.is_capped, sum.messages, sum.bytes, sum.tenants, sum.ids,
    (SELECT written_by FROM receipt) AS written_by
FROM target LEFT JOIN (
    SELECT
        queue_id, count(*) AS messages, sum(bytes) AS bytes,
        array_agg(tenant) FILTER (WHERE (SELECT which FROM said)) AS tenants,
        array_agg(id) FILTER (WHERE (SELECT which FROM said)) AS ids
    FROM stored GROUP BY queue_id
) AS sum ON sum.queue_id = target.id
