-- How many bytes may wait in a queue.
SELECT (settings ->> 'backlog_bytes_max')::bigint FROM tickwork_queues WHERE id = $1
