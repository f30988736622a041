-- The keys of all tenants, by id after a given one.
SELECT /*api_key*/ FROM tickwork_api_keys AS k
WHERE k.id > ?1
ORDER BY k.id LIMIT ?2
