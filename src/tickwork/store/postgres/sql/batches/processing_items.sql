-- The items of a batch that workers have claimed, by id, after a given one.
WITH claimed AS MATERIALIZED (
    -- Searches the claimed messages, which are few, not all waiting ones.
    SELECT id, attempts, last_error AS error, claimed_at AS started_at FROM tickwork_messages
    WHERE tenant = $1 AND batch_id = $2 AND state = 'claimed'
)
SELECT id, NULL::text AS reason, NULL::timestamptz AS ended_at, attempts, error, started_at
FROM claimed
WHERE $3::uuid IS NULL OR id > $3
ORDER BY id
LIMIT $4
