-- Whether a node's lease still runs.
SELECT EXISTS (SELECT 1 FROM tickwork_nodes WHERE id = ?1 AND expires_at > ?2)
