-- Extends a pull lease that is still claimed.
UPDATE tickwork_messages SET lease_until = ?5
WHERE tenant = ?1 AND id = ?2 AND claim = ?3 AND holder = ?4 AND state = 'claimed'
    AND lease_until IS NOT NULL
