-- Notes that a consumer asks for messages of a queue.
UPDATE tickwork_queues SET pulled_at = coalesce($2::timestamptz, clock_timestamp()) WHERE id = $1
