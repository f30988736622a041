-- The keys of a tenant, by id after a given one.
SELECT /*api_key*/ FROM tickwork_api_keys AS k
WHERE k.tenant = ?1 AND k.id > ?2
ORDER BY k.id LIMIT ?3
