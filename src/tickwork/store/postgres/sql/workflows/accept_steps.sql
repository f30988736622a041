-- Sets up to which step the record of a run need not be asked for: all that it has.
UPDATE tickwork_runs SET accepted = coalesce((SELECT max(position) FROM tickwork_run_steps WHERE uid = $1), 0)
WHERE uid = $1
RETURNING accepted
