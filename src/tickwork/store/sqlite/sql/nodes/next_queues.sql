-- Queues in turn, after a given one.
SELECT id FROM tickwork_queues WHERE id > ?1 ORDER BY id LIMIT ?2
