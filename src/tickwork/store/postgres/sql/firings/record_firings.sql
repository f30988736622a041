-- Records attempts at slots whose messages are still claimed, and locks the messages until the transaction
-- ends. Returns what it recorded, and the state of each schedule.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
held AS MATERIALIZED (
    SELECT held.*, m.schedule_id, m.slot, m.run, m.attempts, m.catch_up, m.queue_id, m.key,
        coalesce(m.due_at, m.visible_at) AS due_at
    FROM (
        -- Arrays of one element hold a value that all rows share.
        SELECT given.*,
            ($2::text[])[least(number, cardinality($2))] AS tenant,
            ($4::bigint[])[least(number, cardinality($4))] AS claim,
            ($5::uuid[])[least(number, cardinality($5))] AS holder,
            ($7::text[])[least(number, cardinality($7))] AS status,
            ($8::text[])[least(number, cardinality($8))] AS reason,
            ($10::integer[])[least(number, cardinality($10))] AS result_code,
            ($11::text[])[least(number, cardinality($11))] AS excerpt,
            ($12::text[])[least(number, cardinality($12))] AS channels,
            ($13::boolean[])[least(number, cardinality($13))] AS is_attempt
        FROM unnest($3::uuid[], $6::uuid[], $9::float8[])
            WITH ORDINALITY AS given (id, firing, took_seconds, number)
    ) AS held
    CROSS JOIN LATERAL (
        SELECT * FROM tickwork_messages WHERE tenant = held.tenant AND id = held.id LIMIT 1 FOR UPDATE
    ) AS m
    WHERE m.claim = held.claim AND m.holder = held.holder AND m.schedule_id IS NOT NULL
        AND m.slot IS NOT NULL
),
recorded AS (
    INSERT INTO tickwork_firings (
        tenant, id, schedule_id, slot, run, attempt, status, reason, due_at, started_at, finished_at,
        result_code, excerpt, channels, catch_up
    )
    SELECT
        held.tenant, held.firing, held.schedule_id, held.slot, held.run,
        held.attempts + held.is_attempt::integer, held.status, held.reason, held.due_at,
        moment.now - make_interval(secs => held.took_seconds), moment.now, held.result_code, held.excerpt,
        held.channels::jsonb, held.catch_up
    FROM moment, held
)
SELECT held.number, held.schedule_id, held.slot, held.run, moment.now AS finished_at,
    s.error_count, s.last_error, s.last_status, held.attempts + held.is_attempt::integer AS attempt
FROM moment, held
LEFT JOIN LATERAL (
    SELECT error_count, last_error, last_status FROM tickwork_schedules
    WHERE tenant = held.tenant AND id = held.schedule_id AND status <> 'deleted'
    LIMIT 1
) AS s ON true
