-- Waiting messages that are past their own expiry, with their keys. A receiver that accepted one may complete it
-- until its time is over.
SELECT tenant, queue_id, id, key FROM tickwork_messages
WHERE state <> 'claimed' AND expires_at <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
    AND NOT (
        coalesce(last_error, '') LIKE /*waiting_since*/
        AND visible_at > (SELECT coalesce($1::timestamptz, clock_timestamp()))
    )
ORDER BY expires_at
LIMIT $2
