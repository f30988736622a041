-- A run whose message was just released to wait: clears its lost claims, and makes it visible now if it has other
-- signals than its worker has seen. Returns its queue if it changed.
UPDATE tickwork_messages SET
    lost = 0,
    visible_at = CASE WHEN (SELECT signals FROM tickwork_runs WHERE message_id = ?2) IS NOT ?4
        THEN ?3 ELSE visible_at END
WHERE tenant = ?1 AND id = ?2
    AND (lost > 0 OR (SELECT signals FROM tickwork_runs WHERE message_id = ?2) IS NOT ?4)
RETURNING queue_id
