-- Stores schedules of one tenant; what is there already under its id is not stored again.
INSERT INTO tickwork_schedules (
    tenant, created_at, updated_at, changed_at, id, bucket, name, idempotency_key, fingerprint,
    metadata, body, queue_id, status, next_slot, due_at, look_at, grace_seconds,
    expires_after_seconds, priority, overlap, on_dead, rule, calendar, terms, retry, queue, type,
    content_type
)
VALUES /*each*/ (
    ?1, ?2, ?2, ?2, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?, ?, ?
) /*each*/
ON CONFLICT (tenant, id) DO NOTHING
