-- The rate of a tenant's sends, and until when it is spent. Locks the tenant, so that concurrent sends agree.
SELECT messages_per_second, messages_spent_until, coalesce($2::timestamptz, clock_timestamp()) AS now
FROM tickwork_tenants WHERE id = $1 AND messages_per_second IS NOT NULL
FOR NO KEY UPDATE
