-- The items of a batch with a given outcome, by id, after a given one.
SELECT id, reason, ended_at, attempts, NULL, started_at FROM tickwork_batch_items
WHERE tenant = ?1 AND batch_id = ?2 AND status = ?3 AND id > ?4
ORDER BY id
LIMIT ?5
