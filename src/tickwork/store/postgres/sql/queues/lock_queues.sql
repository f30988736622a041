-- Holds queues, so that none is deleted while something comes to point at it; returns those there are.
SELECT id FROM tickwork_queues WHERE id = ANY ($1::uuid[]) ORDER BY id FOR KEY SHARE
