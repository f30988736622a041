-- Whether a node's lease still runs.
SELECT EXISTS (SELECT 1 FROM nodes WHERE id = ?1 AND expires_at > ?2)
