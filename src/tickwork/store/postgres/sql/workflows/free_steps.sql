-- Lets the body of a run leave out these steps.
UPDATE tickwork_run_steps SET optional = true WHERE uid = $1 AND key = ANY ($2::text[])
