-- The messages that a holder has claimed.
SELECT place, id FROM tickwork_messages WHERE holder = ?1 AND state = 'claimed' AND caller IS NULL
