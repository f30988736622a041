-- Moves messages that are still claimed to the dead letters, each with its reason. Returns the moved messages
-- and their causes, and the dead-letter queue of those that are forwarded.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
gone AS (
    DELETE FROM tickwork_messages AS m
    USING (
        SELECT found.at, held.*
        FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::uuid[], $6::uuid[], $7::text[],
            $8::text[], $9::text[], $10::smallint[], $11::float8[]) WITH ORDINALITY
            AS held (tenant, id, claim, holder, letter, reason, error, fingerprint, counted, took_seconds, number)
        CROSS JOIN LATERAL (
            SELECT ctid AS at FROM tickwork_messages WHERE tenant = held.tenant AND id = held.id LIMIT 1
        ) AS found
    ) AS held
    -- IS NOT DISTINCT FROM keeps the planner from joining by holder, which may match very many rows.
    WHERE m.ctid = held.at
        AND (m.claim, m.holder) IS NOT DISTINCT FROM (held.claim, held.holder)
    RETURNING m.*, held.letter, held.reason, held.error, held.fingerprint, held.number,
        m.attempts + held.counted AS used, held.counted, held.took_seconds
),
letters AS (
    INSERT INTO tickwork_dead_letters (
        id, tenant, queue_id, message_id, reason, error, fingerprint, attempts, failed_at, /*kept*/
    )
    SELECT
        letter, tenant, queue_id, id, reason, coalesce(error, last_error), fingerprint, used,
        moment.now, /*kept*/
    FROM moment, gone
),
ended AS (
    SELECT gone.*, moment.now AS ended_at,
        CASE WHEN reason = 'expired' THEN 'expired' ELSE 'dead' END AS outcome, used AS attempts_used,
        CASE
            WHEN counted > 0 THEN coalesce(moment.now - make_interval(secs => took_seconds), claimed_at)
        END AS started_at
    FROM moment, gone
),
/*history of ended*/,
runs AS (
    -- A run whose message died has failed, unless it ended before.
    UPDATE tickwork_runs AS r
    SET status = 'failed', finished_at = moment.now,
        error = gone.reason || coalesce(': ' || coalesce(gone.error, gone.last_error), '')
    FROM moment, gone
    -- The array keeps a plan that was made while the table was empty from reading all of it.
    WHERE r.message_id = ANY (ARRAY (SELECT id FROM gone)) AND r.message_id = gone.id AND r.status = 'running'
),
first_of_deliveries AS (
    -- A delivery whose message died is dead. Its first message has its id. (coalesce keeps the planner from reading
    -- all that are undelivered.)
    UPDATE tickwork_deliveries AS d SET dead_at = moment.now
    FROM moment, gone
    WHERE d.id = ANY (ARRAY (SELECT id FROM gone)) AND d.id = gone.id AND d.tenant IS NOT DISTINCT FROM gone.tenant
        AND d.message_id = d.id AND coalesce(d.delivered_at, d.dead_at) IS NULL
),
later_of_deliveries AS (
    -- One that arrived before it was sent again is delivered.
    UPDATE tickwork_deliveries AS d
    SET delivered_at = d.arrived_at, dead_at = CASE WHEN d.arrived_at IS NULL THEN moment.now END
    FROM moment, gone
    WHERE d.message_id = ANY (ARRAY (SELECT id FROM gone)) AND d.message_id = gone.id
        AND d.tenant IS NOT DISTINCT FROM gone.tenant AND d.message_id <> d.id AND coalesce(d.delivered_at, d.dead_at) IS NULL
)
SELECT
    gone.tenant, gone.queue_id, gone.type, gone.source, gone.id, gone.key, gone.batch_id,
    CASE WHEN queue.is_capped THEN octet_length(gone.body) END AS bytes, gone.claimed_at,
    gone.attempts, gone.number, gone.reason,
    onward.id AS onward_id, onward.name AS onward, gone.event_id, gone.correlation_id,
    gone.causation_id, gone.hops, gone.priority, gone.content_type,
    CASE WHEN onward.id IS NOT NULL OR starts_with(queue.own, /*entities_prefix*/) THEN gone.body END AS body,
    gone.letter, queue.own AS queue, coalesce(gone.error, gone.last_error) AS error, gone.used,
    gone.sent_at, gone.schedule_id, gone.slot, gone.run, gone.idempotency_base, moment.now AS failed_at
FROM moment CROSS JOIN gone
LEFT JOIN LATERAL (
    SELECT is_capped, tickwork_queues.name AS own, settings ->> 'dead_letter_queue' AS name
    FROM tickwork_queues
    WHERE id = gone.queue_id LIMIT 1
) AS queue ON true
LEFT JOIN LATERAL (
    SELECT id, name FROM (
        SELECT id, name, tenant FROM tickwork_queues
        WHERE tenant = gone.tenant AND tickwork_queues.name = queue.name
        UNION ALL
        SELECT id, name, tenant FROM tickwork_queues
        WHERE tenant IS NULL AND tickwork_queues.name = queue.name
    ) AS either
    WHERE id <> gone.queue_id
    ORDER BY tenant NULLS LAST
    LIMIT 1
) AS onward ON true
