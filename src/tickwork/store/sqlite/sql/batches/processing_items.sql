-- The items of a batch that workers have claimed, by id, after a given one.
SELECT id, NULL, NULL, attempts, last_error, claimed_at FROM tickwork_messages
WHERE tenant = ?1 AND batch_id = ?2 AND ?3 IS NOT NULL AND state = 'claimed' AND +id > ?4
ORDER BY +id
LIMIT ?5
