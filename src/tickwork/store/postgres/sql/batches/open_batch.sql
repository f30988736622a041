-- Creates an empty batch to be filled, unless it exists.
INSERT INTO tickwork_batches (tenant, id, queue_id, completion_queue, run_id, created_at, filled_at)
SELECT $2, $3, $4, $5, $6, now, now
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
ON CONFLICT (tenant, id) DO NOTHING
