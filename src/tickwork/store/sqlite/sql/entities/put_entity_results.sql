-- Keeps the result of a call with an idempotency key.
INSERT OR REPLACE INTO tickwork_entity_results (tenant, entity_id, key, fingerprint, value, error, done_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
