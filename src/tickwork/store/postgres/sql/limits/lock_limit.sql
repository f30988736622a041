-- Locks a limit, so that those who share it agree on what is left.
SELECT name, rate, period_seconds, concurrency, spent_until,
    coalesce($3::timestamptz, clock_timestamp()) AS now
FROM tickwork_limits
WHERE coalesce(tenant, '') = coalesce($1::text, '') AND name = $2
FOR NO KEY UPDATE
