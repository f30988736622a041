-- Starts a node's lease, unless its identity is in use.
INSERT INTO tickwork_nodes (id, name, roles, started_at, expires_at, workflows, permits)
SELECT $2, $3, $4, now, now + make_interval(secs => $5), $6, $7
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
ON CONFLICT (id) DO NOTHING
RETURNING id, name, roles, started_at, expires_at, workflows, permits
