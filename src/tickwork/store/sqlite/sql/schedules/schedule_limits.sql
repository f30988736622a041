-- The limits of a tenant on schedules, and until when its creation rate is spent.
SELECT schedules_max, owner_schedules_max, schedules_per_second, schedules_spent_until
FROM tickwork_tenants WHERE id = ?1
