-- Closes a batch with what it has, as completed: nobody is told of its end.
UPDATE tickwork_batches SET total = stored, completed_at = ?3
WHERE tenant = ?1 AND id = ?2 AND completed_at IS NULL
