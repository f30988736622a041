-- Makes the next messages of free keys ready, or claimed by their callers if they are direct calls. A slot that was
-- blocked by a message that ran (`?2`) is not missed: its grace starts now. Returns whom to wake.
UPDATE tickwork_messages
SET state = CASE WHEN caller IS NULL THEN 'ready' ELSE 'claimed' END,
    claim = claim + (caller IS NOT NULL), holder = caller,
    claimed_at = CASE WHEN caller IS NOT NULL THEN ?1 END, visible_at = max(visible_at, ?1),
    grace_seconds = grace_seconds
        + CASE WHEN ?2 AND due_at < ?1 THEN (?1 - due_at + 999999) / 1000000 ELSE 0 END
WHERE state = 'held' AND place IN (
    /*each*/ (
        SELECT place FROM tickwork_messages
        WHERE queue_id = ? AND tenant = ? AND key = ?
        ORDER BY place
        LIMIT 1
    ) /*each*/
)
RETURNING coalesce(caller, queue_id)
