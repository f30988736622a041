-- The record of a message by its id, which is in a chunk with this mark; the newest if there are several. It is one
-- that may be dropped between two times.
WITH chunks AS MATERIALIZED (
    -- Found by mark. Read in the order of their ends, they would be all of the newest ones.
    SELECT tenant, queue, node, ended_at, records FROM tickwork_message_history
    WHERE marks @> ARRAY[hashtext($2)] AND tenant = $1 AND drop_at >= $4 AND drop_at <= $5
)
SELECT c.tenant, c.queue, c.node, c.ended_at, /*ended*/
FROM chunks AS c CROSS JOIN LATERAL unnest(c.records) AS r
WHERE r.id = $3
ORDER BY c.ended_at DESC
LIMIT 1
