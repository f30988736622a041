-- Completes a batch whose items have all ended, once.
UPDATE tickwork_batches SET completed_at = ?3
WHERE tenant = ?1 AND id = ?2 AND completed_at IS NULL AND total <= completed + failed
RETURNING completion_queue, run_id, total, completed, failed
