-- Adds bytes to the backlog of a queue that counts them, or subtracts a negative number; returns the new backlog.
UPDATE tickwork_queues SET backlog_bytes = backlog_bytes + ?2
WHERE id = ?1 AND backlog_bytes IS NOT NULL
RETURNING backlog_bytes
