-- Blocks a message that waits for its time, because a direct call passes it.
UPDATE tickwork_messages SET state = 'held' WHERE place = ?1
