-- The schedules of a tenant by ids or idempotency keys.
SELECT /*schedule*/ FROM tickwork_schedules AS s
WHERE s.tenant = $1 AND s.id = ANY ($2::uuid[])
UNION
SELECT /*schedule*/ FROM tickwork_schedules AS s
WHERE s.tenant = $1 AND s.idempotency_key = ANY ($3::text[]) AND s.idempotency_key IS NOT NULL
