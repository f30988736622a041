-- Blocked messages of one tenant that match a filter, after a given one. Reads all of them.
WITH keyed AS MATERIALIZED (
    SELECT own.tenant, own.id FROM tickwork_messages AS own
    WHERE own.queue_id = $1 AND own.tenant = $2 AND own.key IS NOT NULL AND own.state = 'held'
        AND ($4::text IS NULL OR own.key = $4)
)
SELECT /*columns*/
FROM keyed
JOIN tickwork_messages AS m ON m.tenant = keyed.tenant AND m.id = keyed.id
WHERE keyed.id > $8 AND m.state = 'held'
    AND ($3::text IS NULL OR m.type = $3)
    AND ($5::text IS NULL OR m.correlation_id = $5)
    AND ($6::timestamptz IS NULL OR m.sent_at <= $6)
ORDER BY m.id
LIMIT $7
