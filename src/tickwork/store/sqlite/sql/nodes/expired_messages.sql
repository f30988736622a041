-- Waiting messages that are past their own expiry. A receiver that accepted one may complete it until its time is over.
SELECT place FROM tickwork_messages
WHERE state <> 'claimed' AND expires_at IS NOT NULL AND expires_at <= ?1
    AND NOT (coalesce(last_error, '') LIKE /*waiting_since*/ AND visible_at > ?1)
ORDER BY expires_at
LIMIT ?2
