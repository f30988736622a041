-- Keeps the types that an app declares for queues of its tenant. A version that is new replaces the app's one before.
INSERT INTO tickwork_types AS known
    (queue_id, type, app, version, schema, handlers, first_seen_at, last_seen_at)
SELECT q.id, new.type, $3, new.version, new.schema, new.handlers, moment.now, moment.now
FROM unnest($4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[])
    AS new (queue_id, type, version, schema, handlers)
JOIN tickwork_queues AS q ON q.id = new.queue_id AND (q.tenant IS NULL OR q.tenant = $2)
CROSS JOIN (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
ORDER BY q.id, new.type
ON CONFLICT (queue_id, type, app) DO UPDATE SET
    first_seen_at = CASE
        WHEN known.version = excluded.version THEN known.first_seen_at ELSE excluded.first_seen_at
    END,
    version = excluded.version,
    schema = excluded.schema,
    handlers = excluded.handlers,
    last_seen_at = excluded.last_seen_at
