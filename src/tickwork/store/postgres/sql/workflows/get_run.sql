-- Returns one run.
SELECT /*run*/ FROM tickwork_runs AS r WHERE r.tenant = $1 AND r.id = $2
