-- The endpoint of a tenant with a name.
SELECT /*endpoint*/ FROM tickwork_endpoints AS e WHERE e.tenant = $1 AND e.name = $2
