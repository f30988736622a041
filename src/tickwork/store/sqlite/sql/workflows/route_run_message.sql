-- Moves the message of a run to another queue, where it is ready. Queues of runs have no cap in bytes, and messages of
-- runs no key.
UPDATE tickwork_messages
SET queue_id = ?2, state = 'ready', holder = NULL, claimed_at = NULL, lease_until = NULL, visible_at = ?3
WHERE place = ?1 AND key IS NULL
