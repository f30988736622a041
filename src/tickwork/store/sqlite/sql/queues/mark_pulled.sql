-- Notes that a consumer asks for messages of a queue.
UPDATE tickwork_queues SET pulled_at = ?2 WHERE id = ?1
