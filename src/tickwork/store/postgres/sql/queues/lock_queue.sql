-- Locks a queue for its deletion, so that no send into it is in progress.
SELECT id FROM tickwork_queues WHERE id = $1 FOR UPDATE
