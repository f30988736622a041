-- Returns the number of events of a run that no step has consumed.
SELECT count(*) AS count FROM tickwork_run_events WHERE uid = $1 AND consumed_by IS NULL
