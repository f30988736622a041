-- Whether a queue is there.
SELECT EXISTS (SELECT 1 FROM tickwork_queues WHERE id = ?1)
