-- The owner of a schedule.
SELECT owner FROM tickwork_schedules WHERE tenant = $1 AND id = $2
