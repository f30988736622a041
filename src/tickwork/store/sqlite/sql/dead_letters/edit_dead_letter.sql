-- Replaces the body of an open dead letter.
UPDATE tickwork_dead_letters SET body = ?4, content_type = ?5, edited_at = ?1
WHERE tenant = ?2 AND id = ?3 AND resolution IS NULL
RETURNING /*returned_dead_letter*/
