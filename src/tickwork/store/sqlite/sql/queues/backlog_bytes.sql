-- The bytes of the bodies that wait in a queue with a cap.
SELECT id, backlog_bytes AS bytes FROM tickwork_queues WHERE id = ?1 AND backlog_bytes IS NOT NULL
