-- Makes ready what a holder holds and does not know of: a claim whose answer was lost.
UPDATE tickwork_messages
SET state = 'ready', holder = NULL, lease_until = NULL
WHERE holder = $1 AND state = 'claimed' AND id <> ALL ($2::uuid[])
RETURNING queue_id
