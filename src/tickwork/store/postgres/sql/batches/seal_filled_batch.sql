-- Closes a batch that has as many items as were given; once more is no harm.
UPDATE tickwork_batches SET total = stored
WHERE tenant = $1 AND id = $2 AND stored = $3
RETURNING true
