-- Replaces the settings of an endpoint.
UPDATE tickwork_endpoints SET settings = ?3, updated_at = ?4
WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)
