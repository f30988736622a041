-- Keeps the results of calls with an idempotency key.
INSERT INTO tickwork_entity_results AS r (tenant, entity_id, key, fingerprint, value, error, done_at)
SELECT new.*, coalesce($1::timestamptz, clock_timestamp())
FROM unnest($2::text[], $3::uuid[], $4::text[], $5::bytea[], $6::bytea[], $7::text[]) AS new
ON CONFLICT (tenant, entity_id, key) DO UPDATE SET
    fingerprint = excluded.fingerprint, value = excluded.value, error = excluded.error, done_at = excluded.done_at
