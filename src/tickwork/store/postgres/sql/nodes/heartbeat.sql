-- Renews a lease that has not expired, and notes how long the node's holds take.
UPDATE tickwork_nodes SET expires_at = now + make_interval(secs => $3), hold_seconds = $4
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
WHERE id = $2 AND expires_at > now
RETURNING id, name, roles, started_at, expires_at, workflows, permits
