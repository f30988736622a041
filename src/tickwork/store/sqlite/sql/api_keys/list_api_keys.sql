-- The keys of one tenant, or of all tenants for the system, by id after a given one.
SELECT /*api_key*/ FROM tickwork_api_keys AS k
WHERE (?1 IS NULL OR k.tenant = ?1) AND k.id > ?2
ORDER BY k.id LIMIT ?3
