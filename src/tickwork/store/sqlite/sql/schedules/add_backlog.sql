-- Adds the bytes of what was planned in a queue that has a cap, whatever the cap is.
UPDATE tickwork_queues SET backlog_bytes = backlog_bytes + ?2
WHERE id = ?1 AND backlog_bytes IS NOT NULL
