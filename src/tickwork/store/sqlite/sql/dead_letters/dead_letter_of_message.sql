-- The latest dead letter of a message, open or resolved: of one tenant, or of any tenant for the system.
SELECT place, /*dead_letter*/
FROM tickwork_dead_letters AS l
WHERE message_id = ?1 AND (?2 IS NULL OR tenant = ?2)
ORDER BY id DESC
LIMIT 1
