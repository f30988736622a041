-- One delivery: of one tenant, or of any tenant for the system.
SELECT /*delivery*/ FROM tickwork_deliveries AS d
WHERE d.id = $1 AND ($2::text IS NULL OR d.tenant = $2)
