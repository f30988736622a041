-- From now on what is handed out of a queue counts for its cap; also what was handed out before.
UPDATE tickwork_messages SET is_counted = true
WHERE queue_id = $1 AND state = 'claimed' AND NOT is_counted
