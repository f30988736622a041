-- Ends runs whose messages are still claimed by exactly these claims, or gives them new params. Returns the
-- numbers of the valid claims.
WITH held AS MATERIALIZED (
    SELECT new.*
    FROM unnest(
        $2::text[], $3::uuid[], $4::bigint[], $5::uuid[], $6::uuid[], $7::text[], $8::bytea[], $9::text[],
        $10::text[], $11::bytea[]
    ) WITH ORDINALITY
        AS new (tenant, id, claim, holder, uid, status, result, error, failed_step, params, number)
    CROSS JOIN LATERAL (
        SELECT 1 FROM tickwork_messages AS m
        WHERE m.tenant = new.tenant AND m.id = new.id
            AND (m.claim, m.holder) IS NOT DISTINCT FROM (new.claim, new.holder)
        LIMIT 1
        FOR SHARE
    ) AS m
),
ended AS (
    UPDATE tickwork_runs AS r SET
        status = held.status, result = held.result, error = held.error,
        failed_step = held.failed_step, params = coalesce(held.params, r.params),
        generation = r.generation + (held.params IS NOT NULL)::integer,
        accepted = CASE WHEN held.params IS NULL THEN r.accepted ELSE 0 END,
        finished_at = CASE WHEN held.status <> 'running' THEN coalesce($1::timestamptz, clock_timestamp()) END
    FROM held
    -- The array keeps a plan that was made while the table was empty from reading all of it.
    WHERE r.uid = ANY (ARRAY (SELECT uid FROM held)) AND r.uid = held.uid AND r.message_id = held.id
        AND r.status = 'running'
    RETURNING held.number, held.uid, held.params
),
forgotten AS (
    DELETE FROM tickwork_run_steps WHERE uid = ANY (ARRAY (SELECT uid FROM ended WHERE params IS NOT NULL))
),
received AS (
    -- Else a run without an end would keep all its events. An id is remembered for a while.
    DELETE FROM tickwork_run_events WHERE uid = ANY (ARRAY (SELECT uid FROM ended WHERE params IS NOT NULL))
        AND consumed_by IS NOT NULL AND (
            id IS NULL
            OR sent_at < coalesce($1::timestamptz, clock_timestamp())
                - make_interval(secs => /*event_retention_seconds*/)
        )
)
SELECT number FROM ended
