-- Claimed messages of one tenant that match a filter, after a given one. Reads every claim.
WITH claimed AS MATERIALIZED (
    SELECT own.tenant, own.id, own.queue_id FROM tickwork_messages AS own WHERE own.state = 'claimed'
)
SELECT /*columns*/
FROM claimed
JOIN tickwork_messages AS m ON m.tenant = claimed.tenant AND m.id = claimed.id
WHERE claimed.queue_id = $1 AND claimed.tenant = $2 AND claimed.id > $8 AND m.state = 'claimed'
    AND ($3::text IS NULL OR m.type = $3)
    AND ($4::text IS NULL OR m.key = $4)
    AND ($5::text IS NULL OR m.correlation_id = $5)
    AND ($6::timestamptz IS NULL OR m.sent_at <= $6)
ORDER BY m.id
LIMIT $7
