-- Creates a tenant, or replaces its settings if that is allowed.
INSERT INTO tickwork_tenants (
    id, weight, suspended, min_interval_seconds, owner_min_interval_seconds, schedules_max,
    owner_schedules_max, schedules_per_second, messages_per_second, requests_per_second, payload_bytes_max,
    backlog_max, claimed_max, emails_per_day, queues_max, endpoints_max, subscriptions_max, sessions_max,
    owner_targets
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
ON CONFLICT (id) DO UPDATE SET
    weight = excluded.weight,
    suspended = excluded.suspended,
    min_interval_seconds = excluded.min_interval_seconds,
    owner_min_interval_seconds = excluded.owner_min_interval_seconds,
    schedules_max = excluded.schedules_max,
    owner_schedules_max = excluded.owner_schedules_max,
    schedules_per_second = excluded.schedules_per_second,
    messages_per_second = excluded.messages_per_second,
    requests_per_second = excluded.requests_per_second,
    payload_bytes_max = excluded.payload_bytes_max,
    backlog_max = excluded.backlog_max,
    claimed_max = excluded.claimed_max,
    emails_per_day = excluded.emails_per_day,
    queues_max = excluded.queues_max,
    endpoints_max = excluded.endpoints_max,
    subscriptions_max = excluded.subscriptions_max,
    sessions_max = excluded.sessions_max,
    owner_targets = excluded.owner_targets
WHERE $20
