-- Makes a message that is still held ready again; counts an attempt where one was made: who lived through that is no
-- suspect any more.
UPDATE tickwork_messages
SET state = 'ready', holder = NULL, lease_until = NULL, attempts = attempts + ?5,
    lost = lost * (1 - ?5),
    visible_at = ?6, last_error = coalesce(?7, last_error)
WHERE tenant = ?1 AND id = ?2 AND claim = ?3 AND holder = ?4 AND state = 'claimed'
RETURNING queue_id, type, source
