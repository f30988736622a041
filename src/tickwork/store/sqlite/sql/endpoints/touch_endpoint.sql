-- Marks an endpoint as changed: one of its secrets was.
UPDATE tickwork_endpoints SET updated_at = ?1 WHERE id = ?2 AND tenant = ?3
