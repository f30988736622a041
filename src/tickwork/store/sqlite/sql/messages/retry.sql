-- Makes a message that is still claimed ready again. Counts an attempt if one was made; a message that
-- survived an attempt is no longer a suspect.
UPDATE tickwork_messages
SET state = 'ready', holder = NULL, claimed_at = NULL, lease_until = NULL, attempts = attempts + ?5,
    lost = lost * (1 - ?5),
    visible_at = ?6, last_error = coalesce(?7, last_error)
WHERE tenant = ?1 AND id = ?2 AND claim = ?3 AND holder = ?4 AND state = 'claimed'
RETURNING queue_id, type, source, key
