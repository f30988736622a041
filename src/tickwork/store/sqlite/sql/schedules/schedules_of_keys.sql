-- The schedules of a tenant, of one owner (`''` for none) or of all, that were created with an idempotency
-- key.
SELECT s.place, s.queue_id, /*schedule*/ FROM tickwork_schedules AS s
WHERE tenant = ?1 AND idempotency_key = ?2 AND idempotency_key IS NOT NULL
    AND (?3 IS NULL OR coalesce(owner, '') = ?3)
