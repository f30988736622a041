-- Deletes items of a batch that no worker has claimed or is claiming, for a reason.
WITH picked AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_messages
    WHERE tenant = $2 AND id = ANY ($3::uuid[]) AND batch_id = $5 AND state <> 'claimed'
    FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM tickwork_messages AS m
    WHERE m.ctid = ANY (ARRAY (SELECT at FROM picked))
    RETURNING /*removed_message*/
),
/*discarded $4*/,
/*history of ended*/
SELECT
    tenant, queue_id, type, source, id, key, batch_id,
    CASE WHEN queue_id IN (SELECT id FROM tickwork_queues WHERE is_capped) THEN octet_length(body) END AS bytes,
    claimed_at, attempts
FROM gone
