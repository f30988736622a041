-- Deletes items of a batch that no worker has claimed or is claiming.
WITH picked AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_messages
    WHERE tenant = $1 AND id = ANY ($3::uuid[]) AND batch_id = $2 AND state <> 'claimed'
    FOR UPDATE SKIP LOCKED
)
DELETE FROM tickwork_messages AS m
WHERE m.ctid = ANY (ARRAY (SELECT at FROM picked))
RETURNING m.id, m.queue_id, m.type, m.source,
    CASE WHEN m.queue_id IN (SELECT id FROM tickwork_queues WHERE is_capped) THEN octet_length(m.body) END
        AS bytes
