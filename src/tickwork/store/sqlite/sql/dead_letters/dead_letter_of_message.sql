-- The latest dead letter of a message, open or resolved: of one tenant, or of any tenant for the system.
SELECT /*dead_letter*/
FROM tickwork_dead_letters AS l
WHERE message_id = ?2 AND (?1 IS NULL OR tenant = ?1)
ORDER BY id DESC
LIMIT 1
