-- The records of some chunks whose time has come, which it locks, with the places of these.
SELECT c.place, c.tenant, c.queue, c.node, c.ended_at, /*ended*/
FROM (
    SELECT ctid::text AS place, tenant, queue, node, ended_at, records FROM tickwork_message_history_default
    WHERE drop_at <= $1
    ORDER BY drop_at
    LIMIT $2
    FOR UPDATE
) AS c
CROSS JOIN LATERAL unnest(c.records) AS r
