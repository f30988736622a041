-- The bytes that still fit into the backlog of a queue with a cap; negative if it is beyond its cap.
SELECT json_extract(settings, '$.backlog_bytes_max') - backlog_bytes FROM tickwork_queues WHERE id = ?1
