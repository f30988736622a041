-- What a holder holds.
SELECT place, id FROM tickwork_messages WHERE holder = ?1 AND state = 'claimed'
