-- The slot a message stands for that is still held by exactly this claim, and the attempt at it.
SELECT tenant, schedule_id, slot, run, attempts + 1, visible_at, catch_up FROM tickwork_messages
WHERE tenant = ?1 AND id = ?2 AND claim = ?3 AND holder = ?4 AND state = 'claimed'
    AND schedule_id IS NOT NULL AND slot IS NOT NULL
