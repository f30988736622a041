-- Marks an endpoint as changed: one of its secrets was.
UPDATE tickwork_endpoints SET updated_at = ?3 WHERE id = ?1 AND tenant = ?2
