-- One dead letter, open or resolved: of one tenant, or of any tenant for the system.
SELECT /*dead_letter*/
FROM tickwork_dead_letters AS l
WHERE id = ?2 AND (?1 IS NULL OR tenant = ?1)
