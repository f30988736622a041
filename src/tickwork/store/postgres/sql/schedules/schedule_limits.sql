-- The limits of a tenant on schedules. Locks the tenant if it has any, so that concurrent creates agree.
SELECT id, schedules_max, owner_schedules_max, schedules_per_second, schedules_spent_until,
    coalesce($2::timestamptz, clock_timestamp()) AS now
FROM tickwork_tenants
WHERE id = $1
    AND (schedules_max IS NOT NULL OR owner_schedules_max IS NOT NULL OR schedules_per_second IS NOT NULL)
FOR NO KEY UPDATE
