-- Sets until when the rate of a queue is spent.
UPDATE tickwork_queues SET spent_until = $2 WHERE id = $1
