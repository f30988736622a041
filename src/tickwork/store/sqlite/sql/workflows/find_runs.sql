-- Returns a run with the time, if it exists.
SELECT ?1 AS now, /*run*/ FROM tickwork_runs AS r WHERE r.tenant = ?2 AND r.id = ?3
