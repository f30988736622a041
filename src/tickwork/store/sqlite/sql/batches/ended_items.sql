-- The items of a batch with a given outcome, by id, after a given one.
SELECT id, reason, ended_at, attempts, NULL AS error, started_at FROM tickwork_batch_items
WHERE tenant = ?1 AND batch_id = ?2 AND status = ?5 AND id > coalesce(?3, x'')
ORDER BY id
LIMIT ?4
