-- Takes a queue for a claim, so that claims of it agree on what they may take; sends go on.
SELECT coalesce($1::timestamptz, clock_timestamp()) AS now, spent_until, settings
FROM tickwork_queues WHERE id = $2
FOR NO KEY UPDATE
