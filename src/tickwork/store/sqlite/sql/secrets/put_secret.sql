-- Stores the current value of a secret unless there is one.
INSERT INTO tickwork_secrets (tenant, owner, field, number, value)
VALUES (?1, ?2, ?3, 0, ?4)
ON CONFLICT (tenant, owner, field, number) DO NOTHING
