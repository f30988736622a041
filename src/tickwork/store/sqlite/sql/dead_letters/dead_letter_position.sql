-- The rowid of a dead letter, and when it failed.
SELECT place, failed_at FROM tickwork_dead_letters
WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)
