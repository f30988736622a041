-- The rowids of the items of a batch that no worker has claimed, by id, after a given one.
SELECT place, id FROM tickwork_messages
WHERE tenant = ?1 AND batch_id = ?2 AND id > ?3 AND state <> 'claimed'
ORDER BY id
LIMIT ?4
