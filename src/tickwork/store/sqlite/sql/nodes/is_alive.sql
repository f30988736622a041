-- Whether a node's lease has not expired.
SELECT EXISTS (SELECT 1 FROM tickwork_nodes WHERE id = ?1 AND expires_at > ?2)
