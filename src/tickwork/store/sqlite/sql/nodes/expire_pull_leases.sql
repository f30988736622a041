-- Makes messages with an expired pull lease ready again, and counts an attempt.
UPDATE tickwork_messages
SET state = 'ready', holder = NULL, claimed_at = NULL, lease_until = NULL, attempts = attempts + 1, visible_at = ?2,
    last_error = ?3
WHERE place IN (SELECT value FROM json_each(?1))
RETURNING queue_id, tenant, type, source
