-- Stores schedules; one whose id, name or idempotency key is in use is left out. Returns the ids stored.
INSERT INTO tickwork_schedules (
    tenant, id, queue_id, bucket, status, next_slot, due_at, look_at, grace_seconds,
    expires_after_seconds, priority, overlap, on_dead, rule, calendar, terms, retry, queue, type,
    content_type, name, idempotency_key, fingerprint, metadata, body, created_at, updated_at, changed_at
)
SELECT new.*, moment.now, moment.now, moment.now
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment, unnest(
    $2::text[], $3::uuid[], $4::uuid[], $5::smallint[], $6::text[], $7::timestamptz[],
    $8::timestamptz[], $9::timestamptz[], $10::integer[], $11::float8[], $12::smallint[], $13::text[],
    $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[],
    $21::text[], $22::text[], $23::text[], $24::bytea[], $25::bytea[], $26::bytea[]
) AS new
ON CONFLICT DO NOTHING
RETURNING id
