-- Lets the body of a run leave out a step.
UPDATE tickwork_run_steps SET optional = 1 WHERE uid = ?1 AND key = ?2
