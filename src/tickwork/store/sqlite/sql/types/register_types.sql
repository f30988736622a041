-- Keeps a type that an app declares for a queue of its tenant. A version that is new replaces the app's one before.
INSERT INTO tickwork_types (queue_id, type, app, version, schema, handlers, first_seen_at, last_seen_at)
SELECT id, ?5, ?3, ?6, ?7, ?8, ?1, ?1 FROM tickwork_queues WHERE id = ?4 AND (tenant IS NULL OR tenant = ?2)
ON CONFLICT (queue_id, type, app) DO UPDATE SET
    first_seen_at = iif(version = excluded.version, first_seen_at, excluded.first_seen_at),
    version = excluded.version,
    schema = excluded.schema,
    handlers = excluded.handlers,
    last_seen_at = excluded.last_seen_at
