-- Stores a new run, unless its id exists.
INSERT INTO tickwork_runs (
    tenant, id, uid, message_id, workflow, version, status, signals, correlation_id, deadline_at, created_at, params,
    parent_id, parent_step
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'running', ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (tenant, id) DO NOTHING
