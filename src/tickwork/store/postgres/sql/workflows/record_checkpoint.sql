-- Records one step that consumes no event, as record_checkpoints.sql does. Half the time of the statement for many,
-- and most runs are alone when they record one.
WITH held AS MATERIALIZED (
    -- The lock keeps the claim until the step is committed.
    SELECT m.lost, m.ctid AS at FROM tickwork_messages AS m
    WHERE m.tenant = $1 AND m.id = $2 AND m.claim = $3 AND m.holder = $4
    LIMIT 1
    FOR SHARE
),
run AS MATERIALIZED (
    SELECT r.signals FROM tickwork_runs AS r
    WHERE r.uid = $5 AND r.message_id = $2 AND r.status = 'running'
    LIMIT 1
),
recorded AS (
    INSERT INTO tickwork_run_steps (uid, /*run_step_columns*/)
    SELECT
        $5::uuid, $6::text, $7::integer, $8::text, $9::text, $10::integer, $11::bytea, $12::bytea,
        $13::timestamptz, $14::timestamptz, $15::timestamptz, $16::integer, $17::text, $18::bytea
    FROM held, run
    ON CONFLICT (uid, key) DO UPDATE SET
        state = excluded.state, attempts = excluded.attempts, output = excluded.output, error = excluded.error,
        wake_at = excluded.wake_at, finished_at = excluded.finished_at, ended = excluded.ended,
        called = excluded.called, args = excluded.args
    WHERE tickwork_run_steps.state <> 'done'
),
cleared AS (
    UPDATE tickwork_messages AS m SET lost = 0 FROM held, run WHERE m.ctid = held.at AND held.lost > 0
)
SELECT signals FROM held, run
