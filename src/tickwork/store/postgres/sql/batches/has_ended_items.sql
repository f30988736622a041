-- Whether any of these items of a batch has ended.
SELECT EXISTS (
    SELECT FROM tickwork_batch_items
    WHERE tenant = $1 AND batch_id = $2 AND status = ANY ('{completed,failed}')
        AND id = ANY ($3::uuid[])
)
