-- Messages of a dead node that reached the limit of lost claims.
SELECT place FROM tickwork_messages WHERE holder = ?1 AND state = 'claimed' AND caller IS NULL AND lost + 1 >= ?2
