-- Moves the message of a run to another queue, where it is ready, if it is claimed by exactly this claim. Queues of runs
-- have no cap in bytes, and messages of runs no key. Returns its id.
UPDATE tickwork_messages
SET queue_id = ?6, state = 'ready', holder = NULL, claimed_at = NULL, lease_until = NULL, visible_at = ?1
WHERE tenant = ?2 AND id = ?3 AND claim = ?4 AND holder = ?5 AND state = 'claimed' AND key IS NULL
RETURNING id
