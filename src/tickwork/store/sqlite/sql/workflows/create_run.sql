-- Stores the run that a message stands for, unless its id exists.
INSERT INTO tickwork_runs (
    tenant, message_id, id, uid, workflow, version, status, correlation_id, created_at, params, parent_id, parent_step
)
VALUES (?2, ?3, ?4, ?5, ?6, ?7, 'running', ?8, ?1, ?9, ?10, ?11)
ON CONFLICT (tenant, id) DO NOTHING
