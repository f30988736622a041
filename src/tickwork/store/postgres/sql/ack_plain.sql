-- Deletes what is still held by exactly this claim, and remembers its event, if nothing hangs on any
-- of them: no key, no batch, no cap; else nothing at all. Answers which of them, by kind, and which
-- of these were done before: of two with one event a single one is fresh.
WITH given AS MATERIALIZED (
    -- What is the same for all is given once. `at` is where the row was last seen.
    SELECT id, at, number,
        ($2::text[])[least(number, cardinality($2))] AS tenant,
        ($4::bigint[])[least(number, cardinality($4))] AS claim,
        ($5::uuid[])[least(number, cardinality($5))] AS holder
    FROM unnest($3::uuid[], $6::tid[]) WITH ORDINALITY AS given (id, at, number)
),
found AS MATERIALIZED (
    SELECT found.*, given.claim, given.holder, given.number
    FROM given
    CROSS JOIN LATERAL (
        SELECT ctid AS at, queue_id, key IS NOT NULL OR batch_id IS NOT NULL AS is_entangled
        FROM tickwork_messages WHERE ctid = given.at AND tenant = given.tenant AND id = given.id
        UNION ALL
        SELECT ctid, queue_id, key IS NOT NULL OR batch_id IS NOT NULL
        FROM tickwork_messages WHERE tenant = given.tenant AND id = given.id
        LIMIT 1
    ) AS found
),
gone AS (
    DELETE FROM tickwork_messages AS m
    USING found AS held
    -- Said so that nobody joins by it: of one holder there may be very many.
    WHERE m.ctid = held.at
        AND (m.claim, m.holder) IS NOT DISTINCT FROM (held.claim, held.holder)
        AND NOT (
            SELECT coalesce(bool_or(
                is_entangled OR queue_id IN (SELECT id FROM tickwork_queues WHERE is_capped)
            ), false)
            FROM found
        )
    RETURNING held.number, m.tenant, m.queue_id, m.type, m.source, m.event_id
),
remembered AS (
    INSERT INTO tickwork_events_done (tenant, queue_id, event_id, done_at)
    SELECT DISTINCT tenant, queue_id, event_id, coalesce($1::timestamptz, statement_timestamp())
    FROM gone WHERE event_id IS NOT NULL
    ORDER BY tenant, queue_id, event_id
    ON CONFLICT DO NOTHING
    RETURNING tenant, queue_id, event_id
),
ended AS (
    SELECT number, tenant, queue_id, type, source, true AS fresh FROM gone WHERE event_id IS NULL
    UNION ALL
    SELECT
        number, gone.tenant, gone.queue_id, type, source,
        remembered.event_id IS NOT NULL
            AND row_number() OVER (
                PARTITION BY gone.tenant, gone.queue_id, gone.event_id ORDER BY number
            ) = 1
    FROM gone LEFT JOIN remembered USING (tenant, queue_id, event_id)
    WHERE gone.event_id IS NOT NULL
)
SELECT
    tenant, queue_id, type, source, array_agg(number) AS numbers,
    array_agg(number) FILTER (WHERE NOT fresh) AS doubles
FROM ended
GROUP BY tenant, queue_id, type, source
