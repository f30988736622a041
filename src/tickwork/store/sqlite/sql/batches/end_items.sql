-- Records the end of an item.
INSERT INTO tickwork_batch_items (tenant, batch_id, status, id, reason, ended_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
