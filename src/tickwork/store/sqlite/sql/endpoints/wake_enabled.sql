-- A message that was just released because its endpoint is disabled: makes it visible now if that is not disabled any
-- more. Returns its queue.
UPDATE tickwork_messages SET visible_at = ?3
WHERE tenant = ?1 AND id = ?2
    AND NOT EXISTS (SELECT 1 FROM tickwork_endpoints WHERE id = ?4 AND disabled_at IS NOT NULL)
RETURNING queue_id
