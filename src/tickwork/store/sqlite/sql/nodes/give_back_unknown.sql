-- Makes messages ready again by where they lie, at no cost to them.
UPDATE tickwork_messages SET state = 'ready', holder = NULL, lease_until = NULL
WHERE place IN (SELECT value FROM json_each(?1))
RETURNING queue_id
