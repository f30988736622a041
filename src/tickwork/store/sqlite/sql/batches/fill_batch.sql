-- Counts items that are stored, if the batch is this queue's, still being filled, and has as many
-- as its filler thinks; says how many have ended.
UPDATE tickwork_batches SET stored = stored + ?5, filled_at = ?6
WHERE tenant = ?1 AND id = ?2 AND queue_id = ?3 AND stored = ?4 AND total IS NULL
RETURNING completed + failed
