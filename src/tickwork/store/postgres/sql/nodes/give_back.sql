-- Makes ready what nodes held; `$2` is what it costs a message in lost claims.
UPDATE tickwork_messages
SET state = 'ready', holder = NULL, lease_until = NULL, lost = lost + $2
WHERE holder = ANY ($1::uuid[]) AND state = 'claimed'
RETURNING queue_id
