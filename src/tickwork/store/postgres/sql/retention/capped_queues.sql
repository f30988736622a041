-- Queues with a cap in turn, after a given one.
SELECT id FROM tickwork_queues WHERE is_capped AND ($1::uuid IS NULL OR id > $1) ORDER BY id LIMIT $2
