-- Puts a message that was pulled forward and not sent back to its own time, also while a dead node holds it.
UPDATE tickwork_messages SET visible_at = ?3 WHERE tenant = ?1 AND id = ?2 AND visible_at < ?3
