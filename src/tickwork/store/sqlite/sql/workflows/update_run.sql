-- Writes what a decision changes in a run.
UPDATE tickwork_runs SET /*run_set ?3*/ WHERE tenant = ?1 AND id = ?2
