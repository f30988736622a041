-- Clears the lost claims of the message of a run that fails. Its claim is given back next, which counts one more.
UPDATE tickwork_messages SET lost = -1 WHERE holder = ?1 AND state = 'claimed' AND id = ?2
