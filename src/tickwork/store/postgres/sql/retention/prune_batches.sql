-- Deletes batches and their counts that have no items and were completed before the retention period, the
-- oldest first.
WITH old AS MATERIALIZED (
    SELECT ctid AS at, tenant, id FROM tickwork_batches AS b
    WHERE completed_at <= $1 AND (
        -- One index lookup per batch, whatever the planner's statistics.
        SELECT item.id FROM tickwork_batch_items AS item
        WHERE item.tenant = b.tenant AND item.batch_id = b.id LIMIT 1
    ) IS NULL
    ORDER BY completed_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
counts AS (
    DELETE FROM tickwork_batch_counts WHERE ctid = ANY (ARRAY (
        SELECT stripe.at
        FROM old CROSS JOIN LATERAL (
            SELECT ctid AS at FROM tickwork_batch_counts
            WHERE tenant = old.tenant AND batch_id = old.id LIMIT /*stripes*/
        ) AS stripe
    ))
)
DELETE FROM tickwork_batches WHERE ctid = ANY (ARRAY (SELECT at FROM old))
RETURNING 1
