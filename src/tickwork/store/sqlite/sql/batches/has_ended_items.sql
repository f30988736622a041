-- Whether any of these items of a batch has ended.
SELECT EXISTS (
    SELECT 1 FROM tickwork_batch_items
    WHERE tenant = ?1 AND batch_id = ?2 AND status IN ('completed', 'failed')
        AND id IN (/*each*/ ? /*each*/)
)
