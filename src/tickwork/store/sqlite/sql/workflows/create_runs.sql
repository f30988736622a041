-- Stores a new run, except if its id exists, and returns its id.
INSERT INTO tickwork_runs (
    tenant, id, uid, message_id, workflow, version, status, signals, correlation_id, deadline_at, created_at, params
)
VALUES (
    ?2, ?3, ?4, ?5, ?6, ?7, 'running', ?8, ?9, ?1 + CAST(round(?10 * 1000000) AS INTEGER), ?1, ?11
)
ON CONFLICT (tenant, id) DO NOTHING
RETURNING id
