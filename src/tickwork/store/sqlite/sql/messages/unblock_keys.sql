-- Makes the next message of a free key ready, or claimed by its caller if it is a direct call. A slot that was
-- blocked by a message that ran (`?5`) is not missed: its grace starts now. Returns whom to wake.
UPDATE tickwork_messages
SET state = CASE WHEN caller IS NULL THEN 'ready' ELSE 'claimed' END,
    claim = claim + (caller IS NOT NULL), holder = caller,
    claimed_at = CASE WHEN caller IS NOT NULL THEN ?4 END, visible_at = max(visible_at, ?4),
    grace_seconds = grace_seconds
        + CASE WHEN ?5 AND due_at < ?4 THEN (?4 - due_at + 999999) / 1000000 ELSE 0 END
WHERE state = 'held' AND place = (
    SELECT place FROM tickwork_messages
    WHERE queue_id = ?1 AND tenant = ?2 AND key = ?3
    ORDER BY place
    LIMIT 1
)
RETURNING coalesce(caller, queue_id)
