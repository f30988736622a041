-- Returns some steps of a run in the order in which they were started. Outputs are read of those alone.
SELECT /*run_step*/
FROM (
    SELECT uid, key FROM tickwork_run_steps WHERE uid = $1 ORDER BY position, key LIMIT $3 OFFSET $2
) AS shown
-- One index lookup per row, whatever the planner's statistics.
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_run_steps WHERE uid = shown.uid AND key = shown.key LIMIT 1
) AS s
ORDER BY s.position, s.key
