-- One endpoint: of one tenant, or of any tenant for the system.
SELECT /*endpoint*/ FROM tickwork_endpoints AS e
WHERE e.id = $1 AND ($2::text IS NULL OR e.tenant = $2)
