-- The items of a batch that no worker has claimed, by id, after a given one.
SELECT id, NULL AS reason, NULL AS ended_at, attempts, last_error AS error, NULL AS started_at FROM tickwork_messages
WHERE tenant = ?1 AND batch_id = ?2 AND id > coalesce(?3, x'') AND state <> 'claimed'
ORDER BY id
LIMIT ?4
