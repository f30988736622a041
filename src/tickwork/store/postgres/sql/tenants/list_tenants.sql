-- The tenants from one id to another, after a given one.
SELECT /*tenant*/ FROM tickwork_tenants AS t
WHERE t.id > $3 AND t.id >= $1 AND t.id <= $2
ORDER BY t.id LIMIT $4
