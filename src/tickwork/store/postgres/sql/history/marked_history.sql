-- Records of a tenant before a position, newest first: of the chunks with a mark.
SELECT c.tenant, c.queue, c.node, c.ended_at, /*ended*/
FROM (
    SELECT tenant, queue, node, ended_at, records FROM tickwork_message_history
    WHERE marks @> ARRAY[hashtext($10)] AND tenant = $1 AND ended_at <= $2 AND ended_at >= $4
        AND ($5::text IS NULL OR queue = $5)
) AS c
CROSS JOIN LATERAL unnest(c.records) AS r
WHERE (c.ended_at, r.id) < ($2, $3) AND ($6::text IS NULL OR r.type = $6) AND ($7::text IS NULL OR r.outcome = $7)
    AND ($8::uuid IS NULL OR r.batch_id = $8)
    AND ($11::text IS NULL OR r.key = $11) AND ($12::text IS NULL OR r.event_id = $12)
    AND ($13::text IS NULL OR r.correlation_id = $13)
ORDER BY c.ended_at DESC, r.id DESC
LIMIT $9
