-- Waiting messages that are past their own expiry.
SELECT place FROM tickwork_messages
WHERE state <> 'claimed' AND expires_at IS NOT NULL AND expires_at <= ?1
ORDER BY expires_at
LIMIT ?2
