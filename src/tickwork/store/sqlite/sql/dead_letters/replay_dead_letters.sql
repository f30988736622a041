-- Resolves an open dead letter, once: as replayed, or as fixed if it was edited.
UPDATE tickwork_dead_letters
SET resolution = CASE WHEN edited_at IS NULL THEN 'replayed' ELSE 'fixed' END,
    resolved_at = ?2, replayed_as = ?3
WHERE place = ?1 AND resolution IS NULL
