-- Deletes the compensations of a run, and the steps that they have undone.
DELETE FROM tickwork_run_steps WHERE uid = $1 AND key = ANY ($2::text[])
