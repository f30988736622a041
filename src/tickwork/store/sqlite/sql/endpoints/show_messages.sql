-- Makes a message that waits visible after some seconds, unless it waits for its completion. Returns its queue.
UPDATE tickwork_messages SET visible_at = ?1 + CAST(round(?4 * 1000000) AS INTEGER)
WHERE tenant = ?2 AND id = ?3 AND state = 'ready'
    AND coalesce(last_error, '') NOT LIKE /*waiting_since*/
RETURNING queue_id
