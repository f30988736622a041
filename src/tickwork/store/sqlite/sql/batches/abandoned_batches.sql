-- Batches whose sender stopped filling them.
SELECT tenant, id FROM tickwork_batches
WHERE total IS NULL AND filled_at <= ?1
ORDER BY filled_at
LIMIT ?2
