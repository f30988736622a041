-- How many entities of a type a tenant has, counted up to a limit.
SELECT count(*) AS count FROM (SELECT 1 FROM tickwork_entities WHERE tenant = ?1 AND type = ?2 LIMIT ?3)
