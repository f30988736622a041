-- What a holder holds.
SELECT place, id FROM messages WHERE holder = ?1 AND state = 'claimed'
