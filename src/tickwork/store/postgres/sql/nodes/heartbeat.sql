-- Renews a lease that has not expired.
UPDATE tickwork_nodes SET expires_at = now + make_interval(secs => $3)
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
WHERE id = $2 AND expires_at > now
RETURNING id, name, roles, started_at, expires_at, workflows
