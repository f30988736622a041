-- Claims one ready message that nobody has claimed since it was read: its claim number is one below the given.
UPDATE tickwork_messages
SET state = 'claimed', claim = ?3, holder = ?4, claimed_at = ?5, lease_until = NULL
WHERE tenant = ?1 AND id = ?2 AND claim = ?3 - 1 AND state = 'ready'
