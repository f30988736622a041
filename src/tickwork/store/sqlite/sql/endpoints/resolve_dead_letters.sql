-- Resolves the open dead letter of a message that is sent again as another one.
UPDATE tickwork_dead_letters INDEXED BY tickwork_dead_letters_message
SET resolution = 'replayed', resolved_at = ?4, replayed_as = ?3
WHERE tenant = ?1 AND message_id = ?2 AND resolution IS NULL
