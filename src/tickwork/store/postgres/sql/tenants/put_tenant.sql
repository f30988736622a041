-- Creates a tenant, or replaces its settings if that is allowed.
INSERT INTO tickwork_tenants (
    id, weight, suspended, min_interval_seconds, schedules_max, schedules_per_second,
    messages_per_second, payload_bytes_max, backlog_max, claimed_max, emails_per_day, owner_targets
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (id) DO UPDATE SET
    weight = excluded.weight,
    suspended = excluded.suspended,
    min_interval_seconds = excluded.min_interval_seconds,
    schedules_max = excluded.schedules_max,
    schedules_per_second = excluded.schedules_per_second,
    messages_per_second = excluded.messages_per_second,
    payload_bytes_max = excluded.payload_bytes_max,
    backlog_max = excluded.backlog_max,
    claimed_max = excluded.claimed_max,
    emails_per_day = excluded.emails_per_day,
    owner_targets = excluded.owner_targets
WHERE $13
RETURNING TRUE
