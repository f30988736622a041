-- Makes messages ready again by rowid, without counting a lost claim.
UPDATE tickwork_messages SET state = 'ready', holder = NULL, claimed_at = NULL, lease_until = NULL
WHERE place IN (SELECT value FROM json_each(?1))
RETURNING queue_id
