-- Counts items of a batch that have ended.
UPDATE tickwork_batches SET completed = completed + ?3, failed = failed + ?4
WHERE tenant = ?1 AND id = ?2
