-- Clears the lost claims of a run's message.
UPDATE tickwork_messages SET lost = 0 WHERE tenant = ?1 AND id = ?2 AND lost > 0
