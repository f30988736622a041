-- Closes a batch with the items it has, as completed: nobody is told of its end.
UPDATE tickwork_batches
SET total = stored, completed_at = coalesce($1::timestamptz, clock_timestamp())
WHERE tenant = $2 AND id = $3 AND completed_at IS NULL
