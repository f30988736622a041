-- Adds the bytes of what was stored in a queue that has a cap, and says how many it has now.
UPDATE tickwork_queues SET backlog_bytes = backlog_bytes + ?2 WHERE id = ?1 RETURNING backlog_bytes
