-- Makes ready what a node held; `?2` is what it costs a message in lost claims.
UPDATE tickwork_messages SET state = 'ready', holder = NULL, lease_until = NULL, lost = lost + ?2
WHERE holder = ?1 AND state = 'claimed'
RETURNING queue_id
