-- What a tenant may have of schedules; taken if there are limits, so that those who make some agree.
SELECT id, schedules_max, schedules_per_second, schedules_spent_until,
    coalesce($2::timestamptz, clock_timestamp()) AS now
FROM tickwork_tenants WHERE id = $1 AND (schedules_max IS NOT NULL OR schedules_per_second IS NOT NULL)
FOR NO KEY UPDATE
