-- Deletes an endpoint.
DELETE FROM tickwork_endpoints WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)
RETURNING tenant
