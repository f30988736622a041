-- Ends a run whose message ends in this transaction, by a valid claim.
UPDATE tickwork_runs SET
    status = ?3, result = ?4, error = ?5, failed_step = ?6, finished_at = ?7
WHERE uid = ?1 AND message_id = ?2 AND status = 'running'
