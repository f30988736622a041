-- One tenant, or all tenants for the system, by id after a given one.
SELECT /*tenant*/ FROM tickwork_tenants AS t
WHERE (?1 IS NULL OR t.id = ?1) AND t.id > ?2
ORDER BY t.id LIMIT ?3
