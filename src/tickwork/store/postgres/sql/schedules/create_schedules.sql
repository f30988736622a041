-- Stores schedules, except for those whose id, name or idempotency key is in use. Returns the stored ids.
INSERT INTO tickwork_schedules (
    tenant, queue_id, /*new_schedule*/, created_at, updated_at, changed_at
)
SELECT new.*, moment.now, moment.now, moment.now
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment, unnest(
    $2::text[], $3::uuid[], /*new_schedule_arrays $4*/
) AS new
ON CONFLICT DO NOTHING
RETURNING id
