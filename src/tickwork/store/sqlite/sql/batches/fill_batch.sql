-- Counts stored items, if the batch belongs to this queue, is still being filled, and has as many items as
-- the sender expects; returns how many have ended.
UPDATE tickwork_batches SET stored = stored + ?5, filled_at = ?6
WHERE tenant = ?1 AND id = ?2 AND queue_id = ?3 AND stored = ?4 AND total IS NULL
RETURNING completed + failed
