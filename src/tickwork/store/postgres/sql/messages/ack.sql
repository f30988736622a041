-- Deletes messages that are still claimed by exactly this claim, and records their events. Of two messages
-- with one event only one is new. Rows that are not returned were not claimed.
WITH found AS MATERIALIZED (
    -- One index lookup per row, whatever the planner's statistics.
    SELECT found.*, held.claim, held.holder, held.skipped, held.took_seconds, held.number
    FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::uuid[], $6::text[], $7::float8[])
        WITH ORDINALITY AS held (tenant, id, claim, holder, skipped, took_seconds, number)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_messages WHERE tenant = held.tenant AND id = held.id LIMIT 1
    ) AS found
),
gone AS (
    DELETE FROM tickwork_messages AS m
    USING found AS held
    -- IS NOT DISTINCT FROM keeps the planner from joining by holder, which may match very many rows.
    WHERE m.ctid = held.at
        AND (m.claim, m.holder) IS NOT DISTINCT FROM (held.claim, held.holder)
    RETURNING held.number, m.tenant, m.queue_id, m.id, m.key, m.batch_id, m.type, m.source,
        octet_length(m.body) AS bytes, m.event_id, m.claimed_at, m.attempts, held.skipped, held.took_seconds,
        /*ended_message*/
),
remembered AS (
    INSERT INTO tickwork_events_done (tenant, queue_id, event_id, done_at)
    SELECT DISTINCT tenant, queue_id, event_id, coalesce($1::timestamptz, statement_timestamp())
    FROM gone WHERE event_id IS NOT NULL
    ORDER BY tenant, queue_id, event_id
    ON CONFLICT DO NOTHING
    RETURNING tenant, queue_id, event_id
),
acked AS MATERIALIZED (
    SELECT gone.*, true AS fresh FROM gone WHERE event_id IS NULL
    UNION ALL
    SELECT gone.*,
        remembered.event_id IS NOT NULL
            AND row_number() OVER (
                PARTITION BY gone.tenant, gone.queue_id, gone.event_id ORDER BY number
            ) = 1
    FROM gone LEFT JOIN remembered USING (tenant, queue_id, event_id)
    WHERE gone.event_id IS NOT NULL
),
ended AS (
    SELECT acked.*, moment.now AS ended_at,
        CASE WHEN fresh AND skipped IS NULL THEN 'done' ELSE 'discarded' END AS outcome,
        CASE WHEN fresh THEN skipped ELSE /*reason_duplicate*/ END AS reason,
        attempts + (fresh AND skipped IS NULL)::integer AS attempts_used,
        CASE
            WHEN fresh AND skipped IS NULL
                THEN coalesce(moment.now - make_interval(secs => took_seconds), claimed_at)
        END AS started_at
    FROM acked CROSS JOIN (SELECT coalesce($1::timestamptz, statement_timestamp()) AS now) AS moment
),
/*history of ended*/
SELECT
    tenant, queue_id, type, source, id, key, batch_id,
    CASE WHEN queue_id IN (SELECT id FROM tickwork_queues WHERE is_capped) THEN bytes END AS bytes,
    CASE WHEN fresh THEN claimed_at END AS claimed_at, attempts, number, fresh
FROM acked
