-- Creates a batch whose items are all sent at once, unless it exists.
INSERT INTO tickwork_batches (
    tenant, id, queue_id, completion_queue, created_at, filled_at, stored, total
)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?6)
ON CONFLICT DO NOTHING
