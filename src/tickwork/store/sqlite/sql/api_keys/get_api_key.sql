-- One key: of one tenant, or of any tenant for the system.
SELECT /*api_key*/ FROM tickwork_api_keys AS k
WHERE k.id = ?1 AND (?2 IS NULL OR k.tenant = ?2)
