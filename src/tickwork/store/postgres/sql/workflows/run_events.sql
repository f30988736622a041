-- Returns the events of runs in order, each with the uid of its run.
SELECT e.uid, /*run_event*/
FROM unnest($1::uuid[]) AS asked (uid)
-- OFFSET keeps the planner from joining in another order.
CROSS JOIN LATERAL (SELECT * FROM tickwork_run_events WHERE uid = asked.uid OFFSET 0) AS e
ORDER BY e.uid, e.number
