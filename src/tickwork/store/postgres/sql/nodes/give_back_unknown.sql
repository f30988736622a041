-- Makes messages ready again that a node has claimed without knowing it, because the answer to its claim was
-- lost.
UPDATE tickwork_messages
SET state = 'ready', holder = NULL, claimed_at = NULL, lease_until = NULL
WHERE holder = $1 AND state = 'claimed' AND caller IS NULL AND id <> ALL ($2::uuid[])
RETURNING queue_id
