-- Replaces the body of an open dead letter.
UPDATE tickwork_dead_letters SET body = ?2, content_type = ?3, edited_at = ?4
WHERE place = ?1 AND resolution IS NULL
