-- Starts a node's lease, unless its identity is in use.
INSERT INTO tickwork_nodes (id, name, roles, started_at, expires_at, workflows, permits)
VALUES (?2, ?3, ?4, ?1, ?1 + CAST(round(?5 * 1000000) AS INTEGER), ?6, ?7)
ON CONFLICT DO NOTHING
RETURNING id, name, roles, started_at, expires_at, workflows, permits
