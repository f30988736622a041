-- A queue that is to be deleted. The transaction writes, so no send into it is in progress.
SELECT id FROM tickwork_queues WHERE id = ?1
