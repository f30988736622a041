-- Creates the missing backlog stripes of a queue.
INSERT INTO tickwork_backlogs (queue_id, stripe, bytes)
SELECT $1, stripe, 0 FROM generate_series(0, $2::integer - 1) AS stripe
ON CONFLICT DO NOTHING
