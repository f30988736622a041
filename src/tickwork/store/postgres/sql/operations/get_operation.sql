-- One operation: of a tenant, or any for the system.
SELECT /*operation*/ FROM tickwork_operations AS o
WHERE o.id = $2 AND ($1::text IS NULL OR o.tenant = $1)
