-- What a tenant may have of schedules, and until when its rate of making them is spent.
SELECT schedules_max, schedules_per_second, schedules_spent_until FROM tickwork_tenants WHERE id = ?1
