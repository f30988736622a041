-- The items of a batch that no worker has claimed, by id, after a given one.
SELECT id, NULL, NULL, attempts, last_error, NULL FROM tickwork_messages
WHERE tenant = ?1 AND batch_id = ?2 AND ?3 IS NOT NULL AND id > ?4 AND state <> 'claimed'
ORDER BY id
LIMIT ?5
