-- Creates a limit or replaces its numbers; what is spent stays spent.
INSERT INTO tickwork_limits (tenant, name, rate, period_seconds, concurrency)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (coalesce(tenant, ''), name) DO UPDATE SET
    rate = excluded.rate,
    period_seconds = excluded.period_seconds,
    concurrency = excluded.concurrency
