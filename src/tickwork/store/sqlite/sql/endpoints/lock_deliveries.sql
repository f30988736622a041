-- A delivery of one tenant or any. The transaction writes, so it is alone.
SELECT id FROM tickwork_deliveries WHERE id = ?2 AND (?1 IS NULL OR tenant = ?1)
