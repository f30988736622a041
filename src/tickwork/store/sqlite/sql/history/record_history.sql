-- Stores a chunk of records.
INSERT INTO tickwork_message_history (ended_at, drop_at, tenant, queue, node, records)
VALUES (?1, ?2, ?3, ?4, (SELECT name FROM tickwork_nodes WHERE id = ?5), ?6)
RETURNING place
