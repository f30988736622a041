-- Renews a lease that has not expired, and notes how long the node's holds take.
UPDATE tickwork_nodes SET expires_at = ?1 + CAST(round(?3 * 1000000) AS INTEGER), hold_seconds = ?4
WHERE id = ?2 AND expires_at > ?1
RETURNING id, name, roles, started_at, expires_at, workflows, permits
