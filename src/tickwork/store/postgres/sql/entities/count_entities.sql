-- How many entities of a type a tenant has, counted up to a limit.
SELECT count(*) AS count FROM (
    SELECT FROM tickwork_entities WHERE tenant = $1 AND type = $2 ORDER BY key LIMIT $3
) AS counted
