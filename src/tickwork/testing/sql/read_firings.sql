-- The firing records of all schedules.
SELECT tenant, schedule_id, slot, run, attempt, status, reason, due_at, started_at, finished_at, catch_up,
    count, last_slot
FROM tickwork_firings
