-- Queues in turn, after a given one.
SELECT id FROM tickwork_queues WHERE $1::uuid IS NULL OR id > $1 ORDER BY id LIMIT $2
