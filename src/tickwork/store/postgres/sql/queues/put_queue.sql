-- Creates a queue or replaces its settings; its id stays.
INSERT INTO tickwork_queues (
    id, tenant, name, settings, max_retries, retention_seconds, is_governed, is_capped
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant, name) DO UPDATE SET
    settings = excluded.settings,
    max_retries = excluded.max_retries,
    retention_seconds = excluded.retention_seconds,
    is_governed = excluded.is_governed,
    is_capped = excluded.is_capped
RETURNING id, tenant, name, settings, paused
