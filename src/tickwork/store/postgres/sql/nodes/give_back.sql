-- Makes the messages of nodes ready again and adds `$2` to their lost claims.
UPDATE tickwork_messages
SET state = 'ready', holder = NULL, claimed_at = NULL, lease_until = NULL, lost = lost + $2
WHERE holder = ANY ($1::uuid[]) AND state = 'claimed' AND caller IS NULL
RETURNING queue_id, tenant, type, source
