-- Replaces the settings of an endpoint.
UPDATE tickwork_endpoints SET settings = ?4, updated_at = ?1
WHERE id = ?2 AND (?3 IS NULL OR tenant = ?3)
RETURNING /*returned_endpoint*/
