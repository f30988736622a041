-- Locks a queue for a claim, so that concurrent claims agree on its limits. Sends are not blocked.
SELECT coalesce($1::timestamptz, clock_timestamp()) AS now, spent_until, settings
FROM tickwork_queues WHERE id = $2
FOR NO KEY UPDATE
