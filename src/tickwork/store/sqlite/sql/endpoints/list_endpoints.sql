-- Endpoints of a tenant by name, after a given name.
SELECT /*endpoint*/ FROM tickwork_endpoints AS e
WHERE e.tenant = ?1 AND e.name > ?2
ORDER BY e.name
LIMIT ?3
