-- Messages held by a dead node that cost their last allowed holder.
SELECT place FROM tickwork_messages WHERE holder = ?1 AND state = 'claimed' AND lost + 1 >= ?2
