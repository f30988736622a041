-- Records steps of runs whose messages are still claimed by exactly these claims, and keeps the claims. Clears
-- their lost claims, and gives a step the event that it consumes. A step that is done stays as it is: it is not fresh.
-- Returns the numbers of the valid claims, with the signals of their runs.
WITH given AS (
    -- Arrays of one element hold a value that all rows share.
    SELECT
        new.id, new.uid, new.number, ($1::text[])[least(new.number, cardinality($1))] AS tenant,
        ($3::bigint[])[least(new.number, cardinality($3))] AS claim,
        ($4::uuid[])[least(new.number, cardinality($4))] AS holder,
        ($6::bigint[])[least(new.number, cardinality($6))] AS event,
        /*run_step_once $7*/
    FROM unnest($2::uuid[], $5::uuid[], /*run_step_arrays $7*/)
        WITH ORDINALITY AS new (id, uid, /*run_step_columns*/, number)
),
held AS MATERIALIZED (
    SELECT new.*, m.lost, m.at, r.signals
    FROM given AS new
    CROSS JOIN LATERAL (
        -- The lock keeps the claim until the steps are committed.
        SELECT m.lost, m.ctid AS at FROM tickwork_messages AS m
        WHERE m.tenant = new.tenant AND m.id = new.id
            AND (m.claim, m.holder) IS NOT DISTINCT FROM (new.claim, new.holder)
        LIMIT 1
        FOR SHARE
    ) AS m
    CROSS JOIN LATERAL (
        SELECT r.signals FROM tickwork_runs AS r
        WHERE r.uid = new.uid AND r.message_id = new.id AND r.status = 'running'
        LIMIT 1
    ) AS r
),
recorded AS (
    INSERT INTO tickwork_run_steps (uid, /*run_step_columns*/)
    SELECT new.uid, /*new.run_step*/ FROM held AS new
    ON CONFLICT (uid, key) DO UPDATE SET
        state = excluded.state, attempts = excluded.attempts, output = excluded.output, error = excluded.error,
        wake_at = excluded.wake_at, finished_at = excluded.finished_at, ended = excluded.ended,
        called = excluded.called, args = excluded.args
    WHERE tickwork_run_steps.state <> 'done'
    RETURNING uid, key
),
consumed AS (
    UPDATE tickwork_run_events AS e SET consumed_by = event.key
    FROM (
        SELECT held.key, found.at FROM held
        -- One index lookup per row, whatever the planner's statistics.
        CROSS JOIN LATERAL (
            SELECT ctid AS at FROM tickwork_run_events WHERE uid = held.uid AND number = held.event LIMIT 1
        ) AS found
        WHERE held.event IS NOT NULL
    ) AS event
    WHERE e.ctid = event.at
),
cleared AS (
    UPDATE tickwork_messages AS m SET lost = 0 WHERE m.ctid = ANY (ARRAY (SELECT at FROM held WHERE lost > 0))
)
SELECT held.number, held.signals, recorded.key IS NOT NULL AS fresh
FROM held LEFT JOIN recorded ON recorded.uid = held.uid AND recorded.key = held.key
