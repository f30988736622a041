-- The maximum number of bytes in the backlog of a queue.
SELECT (settings ->> 'backlog_bytes_max')::bigint FROM tickwork_queues WHERE id = $1
