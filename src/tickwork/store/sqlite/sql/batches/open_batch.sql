-- Creates an empty batch to be filled, unless it exists.
INSERT INTO tickwork_batches (tenant, id, queue_id, completion_queue, run_id, created_at, filled_at)
VALUES (?1, ?2, ?3, ?4, ?6, ?5, ?5)
ON CONFLICT DO NOTHING
