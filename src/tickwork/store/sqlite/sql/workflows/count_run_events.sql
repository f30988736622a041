-- Returns the number of events of a run.
SELECT count(*) AS count FROM tickwork_run_events WHERE uid = ?1
