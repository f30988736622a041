-- Resolves the open dead letter of a message that is sent again as another one.
UPDATE tickwork_dead_letters INDEXED BY tickwork_dead_letters_message
SET resolution = 'replayed', resolved_at = ?1, replayed_as = ?4
WHERE tenant = ?2 AND message_id = ?3 AND resolution IS NULL
