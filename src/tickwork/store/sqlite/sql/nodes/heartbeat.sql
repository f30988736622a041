-- Renews a lease that has not expired.
UPDATE tickwork_nodes SET expires_at = ?3 WHERE id = ?1 AND expires_at > ?2
RETURNING id, name, roles, started_at, expires_at, workflows
