-- One delivery: of one tenant, or of any tenant for the system.
SELECT /*delivery*/ FROM tickwork_deliveries AS d WHERE d.id = ?1 AND (?2 IS NULL OR d.tenant = ?2)
