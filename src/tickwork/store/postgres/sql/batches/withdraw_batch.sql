-- Closes a batch with the items it has and marks it completed, so that no completion event is sent.
UPDATE tickwork_batches
SET total = stored, completed_at = coalesce($1::timestamptz, clock_timestamp())
WHERE tenant = $2 AND id = $3 AND completed_at IS NULL
