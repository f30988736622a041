-- Waiting messages that are past their own expiry, with their keys.
SELECT tenant, queue_id, id, key FROM tickwork_messages
WHERE state <> 'claimed' AND expires_at <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
ORDER BY expires_at
LIMIT $2
