-- An endpoint before it is replaced or deleted. The transaction writes, so it is alone.
SELECT /*endpoint*/ FROM tickwork_endpoints AS e WHERE e.id = ?1 AND (?2 IS NULL OR e.tenant = ?2)
