-- Starts counting the claims of a queue for its cap, including present claims.
UPDATE tickwork_messages SET is_counted = true
WHERE queue_id = $1 AND state = 'claimed' AND NOT is_counted
