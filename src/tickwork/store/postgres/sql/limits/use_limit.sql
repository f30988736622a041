-- Lets a claimed message use a limit until its claim ends.
INSERT INTO tickwork_limit_uses (tenant, name, message_id, claim) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, name, message_id) DO UPDATE SET claim = excluded.claim
