-- Stores new runs, except for those whose id exists, and returns their ids.
INSERT INTO tickwork_runs (
    tenant, id, uid, message_id, workflow, version, status, signals, correlation_id, deadline_at, created_at, params
)
SELECT
    $2, new.id, new.uid, new.message_id, new.workflow, new.version, 'running', new.signals, new.correlation_id,
    moment.now + make_interval(secs => new.deadline_seconds), moment.now, new.params
FROM
    (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment,
    unnest(
        $3::text[], $4::uuid[], $5::uuid[], $6::text[], $7::text[], $8::bigint[], $9::text[], $10::float8[],
        $11::bytea[]
    ) AS new (id, uid, message_id, workflow, version, signals, correlation_id, deadline_seconds, params)
-- In a fixed order, so that concurrent transactions do not deadlock.
ORDER BY new.id
ON CONFLICT (tenant, id) DO NOTHING
RETURNING id
