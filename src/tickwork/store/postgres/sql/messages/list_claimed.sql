-- Claimed messages of one tenant that match a filter, after a given one. Reads every claim.
WITH claimed AS MATERIALIZED (
    SELECT own.tenant, own.id, own.queue_id FROM tickwork_messages AS own WHERE own.state = 'claimed'
)
SELECT /*columns*/, m.place
FROM claimed
JOIN tickwork_messages AS m ON m.tenant = claimed.tenant AND m.id = claimed.id
WHERE claimed.queue_id = $1 AND claimed.tenant = $2 AND claimed.id > $6 AND m.state = 'claimed'
    AND ($3::text IS NULL OR m.type = $3)
    AND ($4::timestamptz IS NULL OR m.sent_at <= $4)
ORDER BY m.id
LIMIT $5
