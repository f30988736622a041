-- Counts a new run of a schedule that is not deleted, and returns its number.
UPDATE tickwork_schedules SET runs = runs + 1
WHERE tenant = ?1 AND id = ?2 AND status <> 'deleted'
RETURNING runs
