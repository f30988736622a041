-- Lets a failed step of a run be tried again, with all its attempts.
UPDATE tickwork_run_steps SET state = 'retrying', attempts = 0, wake_at = ?3, finished_at = NULL, ended = NULL
WHERE uid = ?1 AND key = ?2 AND state = 'failed'
