-- Locks an endpoint, so that it does not change before it is replaced or deleted.
SELECT /*endpoint*/ FROM tickwork_endpoints AS e
WHERE e.id = $1 AND ($2::text IS NULL OR e.tenant = $2)
FOR UPDATE
