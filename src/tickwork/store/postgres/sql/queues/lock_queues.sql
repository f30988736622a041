-- Locks queues, so that none is deleted while a new row refers to it; returns those that exist.
SELECT id FROM tickwork_queues WHERE id = ANY ($1::uuid[]) ORDER BY id FOR KEY SHARE
