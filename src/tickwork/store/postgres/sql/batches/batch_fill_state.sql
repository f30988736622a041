-- How many items a batch has so far, and whether it is still being filled.
SELECT queue_id, stored, total FROM tickwork_batches WHERE tenant = $1 AND id = $2
