-- Returns the steps of a run in the order in which they were started.
SELECT s.uid, /*run_step*/ FROM tickwork_run_steps AS s WHERE s.uid = ?1 ORDER BY s.position, s.key
