-- Creates a queue or replaces its settings; its id stays.
INSERT INTO tickwork_queues (id, tenant, name, settings, max_retries, retention_seconds)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (coalesce(tenant, ''), name) DO UPDATE SET
    settings = excluded.settings,
    max_retries = excluded.max_retries,
    retention_seconds = excluded.retention_seconds
RETURNING id, tenant, name, settings, paused
