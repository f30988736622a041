-- The limits of a tenant, or those of shared queues, by name.
SELECT name, rate, period_seconds, concurrency, spent_until FROM tickwork_limits
WHERE coalesce(tenant, '') = coalesce(?1, '')
ORDER BY name
