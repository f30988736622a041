-- The nodes whose lease was not ended.
SELECT id, name, roles, started_at, expires_at, workflows, permits FROM tickwork_nodes ORDER BY started_at, id
