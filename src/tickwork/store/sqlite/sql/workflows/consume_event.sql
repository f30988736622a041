-- Gives an event of a run to the step that consumes it.
UPDATE tickwork_run_events SET consumed_by = ?3 WHERE uid = ?1 AND number = ?2
