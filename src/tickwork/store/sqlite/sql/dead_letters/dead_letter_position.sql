-- When a dead letter failed: its position in the list.
SELECT failed_at FROM tickwork_dead_letters
WHERE id = ?2 AND (?1 IS NULL OR tenant = ?1)
