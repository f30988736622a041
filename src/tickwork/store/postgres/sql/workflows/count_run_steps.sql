-- Returns the number of steps of a run.
SELECT count(*) AS count FROM tickwork_run_steps WHERE uid = $1
