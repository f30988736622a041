-- Resolves an open dead letter that is sent again as a message, once: as replayed, or as fixed if it was edited. Returns
-- it.
UPDATE tickwork_dead_letters
SET resolution = CASE WHEN edited_at IS NULL THEN 'replayed' ELSE 'fixed' END,
    resolved_at = ?1, replayed_as = ?4
WHERE tenant = ?2 AND id = ?3 AND resolution IS NULL
RETURNING /*returned_dead_letter*/
