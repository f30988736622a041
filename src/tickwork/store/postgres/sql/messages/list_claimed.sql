-- Claimed messages of one tenant that match a filter, of each holder between two ids.
SELECT /*columns*/, m.place
FROM unnest($6::uuid[], $7::uuid[], $8::uuid[]) AS claims (holder, after_id, until_id)
CROSS JOIN LATERAL (
    SELECT own.* FROM tickwork_messages AS own
    WHERE own.state = 'claimed' AND own.holder = claims.holder AND own.queue_id = $1 AND own.tenant = $2
        AND own.id > claims.after_id AND own.id <= claims.until_id
        AND ($3::text IS NULL OR own.type = $3)
        AND ($4::timestamptz IS NULL OR own.sent_at <= $4)
    ORDER BY own.id
    LIMIT $5
) AS m
ORDER BY m.holder, m.id
LIMIT $5
