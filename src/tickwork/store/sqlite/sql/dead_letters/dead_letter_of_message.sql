-- The open dead letter of a message: of one tenant, or of any tenant for the system.
SELECT place, /*dead_letter*/
FROM tickwork_dead_letters AS l
WHERE message_id = ?1 AND (?2 IS NULL OR tenant = ?2) AND resolution IS NULL
LIMIT 1
