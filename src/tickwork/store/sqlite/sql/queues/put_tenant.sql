-- Creates a tenant or replaces its settings.
INSERT INTO tickwork_tenants (
    id, weight, suspended, min_interval_seconds, schedules_max, schedules_per_second, owner_targets
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (id) DO UPDATE SET
    weight = excluded.weight,
    suspended = excluded.suspended,
    min_interval_seconds = excluded.min_interval_seconds,
    schedules_max = excluded.schedules_max,
    schedules_per_second = excluded.schedules_per_second,
    owner_targets = excluded.owner_targets
