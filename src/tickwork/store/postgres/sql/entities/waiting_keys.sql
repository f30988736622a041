-- Of keys, those whose first message is a send that waits for its time.
SELECT given.tenant, given.queue_id, given.key
FROM unnest($2::text[], $3::uuid[], $4::text[]) AS given (tenant, queue_id, key)
CROSS JOIN LATERAL (
    SELECT caller IS NULL AND state <> 'claimed' AND visible_at > coalesce($1::timestamptz, clock_timestamp())
        AS is_waiting
    FROM tickwork_messages
    WHERE queue_id = given.queue_id AND tenant = given.tenant AND key = given.key
    ORDER BY place
    LIMIT 1
) AS first
WHERE first.is_waiting
