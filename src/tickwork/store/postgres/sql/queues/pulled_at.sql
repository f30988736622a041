-- When a consumer last asked for messages of a queue.
SELECT pulled_at FROM tickwork_queues WHERE id = $1
