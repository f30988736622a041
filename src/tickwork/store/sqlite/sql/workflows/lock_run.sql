-- Returns one run. The transaction writes, so it is alone.
SELECT /*run*/ FROM tickwork_runs AS r WHERE r.tenant = ?1 AND r.id = ?2
