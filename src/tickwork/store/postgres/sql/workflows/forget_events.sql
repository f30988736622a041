-- Deletes the events of a run.
DELETE FROM tickwork_run_events WHERE uid = $1
