-- Stores one plain message in a queue without a cap, in a transaction that nobody repeats. Returns the id of the transaction
-- that wrote it; nothing if there is no such queue.
INSERT INTO tickwork_messages (tenant, queue_id, state, sent_at, visible_at, expires_at, /*plain*/)
SELECT
    $2::text, target.id, 'ready', target.now, target.now + make_interval(secs => $4::float8),
    target.now + make_interval(secs => $4::float8 + $5::float8), /*plain_parameters $6*/
FROM (
    -- Locked, so that it is not deleted while a message is being stored in it.
    SELECT id, coalesce($1::timestamptz, clock_timestamp()) AS now FROM tickwork_queues
    WHERE id = $3 AND NOT is_capped FOR KEY SHARE
) AS target
RETURNING xmin::text::bigint AS written_by
