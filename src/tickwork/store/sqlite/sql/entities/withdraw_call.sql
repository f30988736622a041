-- Deletes a direct call that is blocked.
DELETE FROM tickwork_messages WHERE tenant = ?1 AND id = ?2 AND caller IS NOT NULL AND state = 'held'
RETURNING /*removed*/
