-- Counts new runs of a schedule that is not deleted, and returns how many it has then.
UPDATE tickwork_schedules SET runs = runs + ?3
WHERE tenant = ?1 AND id = ?2 AND status <> 'deleted'
RETURNING tenant, id, runs
