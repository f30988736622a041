-- Gives the bytes of what left back to a queue that has a cap.
UPDATE tickwork_queues SET backlog_bytes = backlog_bytes - ?2
WHERE id = ?1 AND backlog_bytes IS NOT NULL
