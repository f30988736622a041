-- One limit, and until when its rate is spent.
SELECT name, rate, period_seconds, concurrency, spent_until FROM tickwork_limits
WHERE coalesce(tenant, '') = coalesce(?1, '') AND name = ?2
