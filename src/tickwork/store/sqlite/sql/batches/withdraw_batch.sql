-- Closes a batch with the items it has and marks it completed, so that no completion event is sent.
UPDATE tickwork_batches SET total = stored, completed_at = ?3
WHERE tenant = ?1 AND id = ?2 AND completed_at IS NULL
