-- Deletes the steps of a run from a position on.
DELETE FROM tickwork_run_steps WHERE uid = $1 AND position >= $2
