-- Takes a queue for its end: no send into it can be under way after this.
SELECT id FROM tickwork_queues WHERE id = $1 FOR UPDATE
