-- The settings of a queue.
SELECT settings FROM tickwork_queues WHERE id = ?1
