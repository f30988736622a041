-- Deletes a batch that has no items.
DELETE FROM tickwork_batches WHERE tenant = ?1 AND id = ?2 AND NOT EXISTS (
    SELECT 1 FROM tickwork_batch_items WHERE tenant = ?1 AND batch_id = ?2
)
