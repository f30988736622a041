-- Closes a batch that has the given number of items. A repeat has no effect.
UPDATE tickwork_batches SET total = stored
WHERE tenant = $1 AND id = $2 AND stored = $3
RETURNING true
