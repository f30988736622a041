-- The items of a batch that workers have claimed, by id, after a given one.
SELECT id, NULL AS reason, NULL AS ended_at, attempts, last_error AS error, claimed_at AS started_at
FROM tickwork_messages
WHERE tenant = ?1 AND batch_id = ?2 AND state = 'claimed' AND +id > coalesce(?3, x'')
ORDER BY +id
LIMIT ?4
