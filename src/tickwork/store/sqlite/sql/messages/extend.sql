-- Extends a pull lease that is still claimed.
UPDATE tickwork_messages SET lease_until = ?1 + CAST(round(?6 * 1000000) AS INTEGER)
WHERE tenant = ?2 AND id = ?3 AND claim = ?4 AND holder = ?5 AND state = 'claimed'
    AND lease_until IS NOT NULL
RETURNING id
