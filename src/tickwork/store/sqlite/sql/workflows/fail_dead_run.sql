-- A run whose message died has failed, unless it ended before.
UPDATE tickwork_runs SET status = 'failed', finished_at = ?2, error = ?3 || coalesce(': ' || ?4, '')
WHERE message_id = ?1 AND status = 'running'
