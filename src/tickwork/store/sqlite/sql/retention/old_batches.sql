-- Batches completed before the retention period, the oldest first.
SELECT tenant, id FROM tickwork_batches
WHERE completed_at IS NOT NULL AND completed_at <= ?1
ORDER BY completed_at
LIMIT ?2
