-- Records in some blocks of the partition of an hour.
SELECT c.tenant, c.queue, c.node, c.ended_at, /*ended*/
FROM tickwork_message_history_/*hour*/ AS c CROSS JOIN LATERAL unnest(c.records) AS r
WHERE c.ctid >= $1::text::tid AND c.ctid < $2::text::tid
