-- How many visible messages a queue has, of one tenant or all, and since when the oldest one is visible. The count
-- stops at ?4. Reads only indexes, and skips from one tenant and priority to the next.
WITH RECURSIVE lane (place) AS (
    /*lanes*/
), ready (tenant, priority) AS MATERIALIZED (
    SELECT first.tenant, first.priority
    FROM lane JOIN tickwork_messages AS first ON first.place = lane.place
    WHERE ?2 IS NULL OR first.tenant = ?2
)
SELECT
    (
        SELECT count(*) FROM (
            SELECT 1 FROM ready CROSS JOIN tickwork_messages AS m
            WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.tenant = ready.tenant
                AND m.priority = ready.priority AND m.visible_at <= ?3
            LIMIT ?4
        )
    ) AS messages,
    (
        SELECT min((
            SELECT visible_at FROM tickwork_messages AS m
            WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.tenant = ready.tenant
                AND m.priority = ready.priority AND m.visible_at <= ?3
            ORDER BY visible_at LIMIT 1
        ))
        FROM ready
    ) AS oldest
