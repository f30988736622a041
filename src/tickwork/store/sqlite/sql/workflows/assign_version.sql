-- Sets the version of a run that has none, if its message is still claimed by exactly this claim.
UPDATE tickwork_runs SET version = coalesce(version, ?6)
WHERE uid = ?5 AND message_id = ?2 AND status = 'running' AND EXISTS (
    SELECT 1 FROM tickwork_messages
    WHERE tenant = ?1 AND id = ?2 AND claim = ?3 AND holder = ?4 AND state = 'claimed'
)
RETURNING uid
