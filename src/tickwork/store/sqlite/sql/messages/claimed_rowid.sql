-- The rowid of a message that is still claimed by exactly this claim.
SELECT place FROM tickwork_messages
WHERE tenant = ?1 AND id = ?2 AND claim = ?3 AND holder = ?4 AND state = 'claimed'
