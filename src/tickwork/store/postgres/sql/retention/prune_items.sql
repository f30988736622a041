-- Deletes items of batches completed before the retention period.
WITH old AS MATERIALIZED (
    SELECT tenant, id FROM tickwork_batches
    WHERE completed_at <= $1
    ORDER BY completed_at
    LIMIT $2
)
DELETE FROM tickwork_batch_items
WHERE ctid = ANY (ARRAY (
    SELECT item.at
    FROM old CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_batch_items
        WHERE tenant = old.tenant AND batch_id = old.id
        LIMIT $2
    ) AS item
    LIMIT $2
))
