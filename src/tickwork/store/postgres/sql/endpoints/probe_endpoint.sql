-- Keeps the breaker of an endpoint open for some seconds, if it was open until now: one caller succeeds.
UPDATE tickwork_endpoints
SET open_until = coalesce($1::timestamptz, clock_timestamp()) + make_interval(secs => $3)
WHERE id = $2 AND open_until <= coalesce($1::timestamptz, clock_timestamp())
RETURNING id
