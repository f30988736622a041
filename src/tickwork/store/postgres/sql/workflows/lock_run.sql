-- Returns one run and locks it.
SELECT /*run*/ FROM tickwork_runs AS r WHERE r.tenant = $1 AND r.id = $2 FOR UPDATE
