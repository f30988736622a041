-- One limit, and the time. The transaction writes, so those who share the limit agree on what is left.
SELECT name, rate, period_seconds, concurrency, spent_until, ?3 AS now FROM tickwork_limits
WHERE coalesce(tenant, '') = coalesce(?1, '') AND name = ?2
