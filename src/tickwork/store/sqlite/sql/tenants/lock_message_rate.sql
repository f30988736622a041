-- The rate of a tenant's sends, and until when it is spent.
SELECT messages_per_second, messages_spent_until FROM tickwork_tenants
WHERE id = ?1 AND messages_per_second IS NOT NULL
