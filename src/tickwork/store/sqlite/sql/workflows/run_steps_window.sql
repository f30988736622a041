-- Returns some steps of a run in the order in which they were started. Outputs are read of those alone.
SELECT /*run_step*/
FROM (
    SELECT uid, key FROM tickwork_run_steps WHERE uid = ?1 ORDER BY position, key LIMIT ?3 OFFSET ?2
) AS shown
CROSS JOIN tickwork_run_steps AS s ON s.uid = shown.uid AND s.key = shown.key
ORDER BY s.position, s.key
