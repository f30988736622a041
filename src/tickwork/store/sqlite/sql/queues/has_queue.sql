-- Whether a queue exists.
SELECT EXISTS (SELECT 1 FROM tickwork_queues WHERE id = ?1)
