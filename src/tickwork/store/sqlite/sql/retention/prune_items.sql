-- Deletes some items of a batch.
DELETE FROM tickwork_batch_items WHERE (tenant, batch_id, status, id) IN (
    SELECT tenant, batch_id, status, id FROM tickwork_batch_items
    WHERE tenant = ?1 AND batch_id = ?2
    LIMIT ?3
)
