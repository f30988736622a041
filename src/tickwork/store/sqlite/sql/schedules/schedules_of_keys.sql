-- The schedule of a tenant that was created with an idempotency key.
SELECT s.place, s.queue_id, /*schedule*/ FROM tickwork_schedules AS s
WHERE tenant = ?1 AND idempotency_key = ?2 AND idempotency_key IS NOT NULL
