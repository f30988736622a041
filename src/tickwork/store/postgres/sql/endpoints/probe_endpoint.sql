-- Keeps the breaker of an endpoint open for some seconds, if it was open until now: one caller succeeds.
UPDATE tickwork_endpoints AS e SET open_until = until.at, probe_at = until.at
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) + make_interval(secs => $3) AS at) AS until
WHERE e.id = $2 AND e.open_until <= until.at - make_interval(secs => $3)
RETURNING e.id
