-- Nodes whose lease expired, the earliest first.
SELECT id FROM tickwork_nodes WHERE expires_at <= ?1 ORDER BY expires_at, id LIMIT ?2
