-- Renews a lease that has not expired, and notes how long the node's holds take.
UPDATE tickwork_nodes SET expires_at = ?3, hold_seconds = ?4 WHERE id = ?1 AND expires_at > ?2
RETURNING id, name, roles, started_at, expires_at, workflows
