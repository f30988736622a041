-- Lets the next message of a key that is free take its turn.
UPDATE tickwork_messages SET state = 'ready', visible_at = max(visible_at, ?4)
WHERE state = 'held' AND place = (
    SELECT place FROM tickwork_messages
    WHERE queue_id = ?1 AND tenant = ?2 AND key = ?3
    ORDER BY place
    LIMIT 1
)
