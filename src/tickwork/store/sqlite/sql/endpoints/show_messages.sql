-- Makes a message that waits visible at a time, unless it waits for its completion. Returns its queue.
UPDATE tickwork_messages SET visible_at = ?3
WHERE tenant = ?1 AND id = ?2 AND state = 'ready'
    AND coalesce(last_error, '') NOT LIKE /*waiting_since*/
RETURNING queue_id
