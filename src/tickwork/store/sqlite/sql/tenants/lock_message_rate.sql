-- The rate of a tenant's sends, and until when it is spent; and the time.
SELECT messages_per_second, messages_spent_until, ?2 AS now FROM tickwork_tenants
WHERE id = ?1 AND messages_per_second IS NOT NULL
