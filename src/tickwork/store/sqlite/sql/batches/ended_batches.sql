-- Batches whose items have all ended and that are not completed yet.
SELECT tenant, id FROM tickwork_batches INDEXED BY tickwork_batches_ended
WHERE completed_at IS NULL AND total <= completed + failed
LIMIT ?1
