-- Records the end of an item.
INSERT INTO tickwork_batch_items (tenant, batch_id, status, id, reason, ended_at, started_at, attempts)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
