-- One tenant.
SELECT id, weight, suspended, min_interval_seconds, schedules_max, schedules_per_second
FROM tickwork_tenants WHERE id = ?1
