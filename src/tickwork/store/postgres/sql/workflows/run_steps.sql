-- Returns the steps of runs, each with the uid of its run, in the order in which they were started.
SELECT s.uid, /*run_step*/
FROM unnest($1::uuid[]) AS asked (uid)
-- OFFSET keeps the planner from joining in another order.
CROSS JOIN LATERAL (SELECT * FROM tickwork_run_steps WHERE uid = asked.uid OFFSET 0) AS s
ORDER BY s.uid, s.position, s.key
