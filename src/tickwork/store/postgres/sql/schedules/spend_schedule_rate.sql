-- Until when a tenant's rate of making schedules is spent.
UPDATE tickwork_tenants SET schedules_spent_until = $2 WHERE id = $1
