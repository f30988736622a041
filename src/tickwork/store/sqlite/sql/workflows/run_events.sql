-- Returns the events of a run in order.
SELECT e.uid, /*run_event*/ FROM tickwork_run_events AS e WHERE e.uid = ?1 ORDER BY e.number
