-- Records a step of a run. A step with the same key is replaced, unless it is done.
INSERT INTO tickwork_run_steps (/*run_step_columns*/, uid) VALUES (/*run_step_values*/, ?)
ON CONFLICT (uid, key) DO UPDATE SET
    state = excluded.state, attempts = excluded.attempts, output = excluded.output, error = excluded.error,
    wake_at = excluded.wake_at, finished_at = excluded.finished_at, ended = excluded.ended,
    called = excluded.called, args = excluded.args
WHERE tickwork_run_steps.state <> 'done'
