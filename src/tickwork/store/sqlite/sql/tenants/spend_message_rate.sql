-- Sets until when a tenant's rate of sends is spent.
UPDATE tickwork_tenants SET messages_spent_until = ?2 WHERE id = ?1
