-- Sets until when a tenant's creation rate of schedules is spent.
UPDATE tickwork_tenants SET schedules_spent_until = $2 WHERE id = $1
