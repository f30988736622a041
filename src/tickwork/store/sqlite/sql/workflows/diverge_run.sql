-- Notes how a run diverges from its record (?7), or with NULL that it does not, if its message is still claimed by
-- exactly this claim. Returns its uid.
UPDATE tickwork_runs SET
    divergence = ?7, diverged_at = CASE WHEN ?7 IS NOT NULL THEN coalesce(diverged_at, ?1) END
WHERE uid = ?6 AND message_id = ?3 AND status = 'running' AND EXISTS (
    SELECT 1 FROM tickwork_messages
    WHERE tenant = ?2 AND id = ?3 AND claim = ?4 AND holder = ?5 AND state = 'claimed'
)
RETURNING uid
