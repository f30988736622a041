-- When the next message of a queue becomes visible, for one tenant or all. Skips from one tenant and priority
-- to the next.
WITH RECURSIVE lane (place) AS (
    /*lanes*/
    LIMIT ?4
)
SELECT min((
    SELECT visible_at FROM tickwork_messages
    WHERE queue_id = ?1 AND state = 'ready' AND tenant = m.tenant AND priority = m.priority
        AND visible_at > ?3
    ORDER BY visible_at LIMIT 1
)) AS at
FROM lane JOIN tickwork_messages AS m ON m.place = lane.place
WHERE ?2 IS NULL OR m.tenant = ?2
