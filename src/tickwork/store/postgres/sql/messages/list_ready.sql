-- Ready and delayed messages of one tenant that match a filter, of each priority between two rows.
SELECT /*columns*/, m.place
FROM unnest($6::integer[], $7::timestamptz[], $8::uuid[], $9::timestamptz[], $10::uuid[])
    AS lane (priority, after_visible, after_id, until_visible, until_id)
CROSS JOIN LATERAL (
    SELECT own.* FROM tickwork_messages AS own
    WHERE own.queue_id = $1 AND own.state = 'ready' AND own.tenant = $2
        AND own.priority = lane.priority
        AND (own.visible_at, own.id) > (lane.after_visible, lane.after_id)
        AND (own.visible_at, own.id) <= (lane.until_visible, lane.until_id)
        AND ($3::text IS NULL OR own.type = $3)
        AND ($4::timestamptz IS NULL OR own.sent_at <= $4)
    ORDER BY own.visible_at, own.id
    LIMIT $5
) AS m
ORDER BY m.priority DESC, m.visible_at, m.id
LIMIT $5
