-- Ready and delayed messages of one tenant that match a filter, in each priority after a given one.
SELECT /*columns*/
FROM unnest($8::integer[], $9::timestamptz[], $10::uuid[]) AS lane (priority, visible_at, id)
CROSS JOIN LATERAL (
    SELECT own.* FROM tickwork_messages AS own
    WHERE own.queue_id = $1 AND own.state = 'ready' AND own.tenant = $2
        AND own.priority = lane.priority
        AND (own.visible_at, own.id) > (lane.visible_at, lane.id) AND own.visible_at <= $11
        AND ($3::text IS NULL OR own.type = $3)
        AND ($4::text IS NULL OR own.key = $4)
        AND ($5::text IS NULL OR own.correlation_id = $5)
        AND ($6::timestamptz IS NULL OR own.sent_at <= $6)
    ORDER BY own.visible_at, own.id
    LIMIT $7
) AS m
ORDER BY m.priority DESC, m.visible_at, m.id
LIMIT $7
