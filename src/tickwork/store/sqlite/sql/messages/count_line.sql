-- How many ready deliveries to the receiver of one stand before it, up to a limit, and how many are under way.
SELECT (
    SELECT count(*) FROM (
        SELECT 1 FROM tickwork_messages AS m
        WHERE m.queue_id = ?1 AND m.tenant = ?2 AND m.receiver = ?3 AND m.state = 'ready'
            AND (m.priority > ?4 AND m.visible_at <= max(?5, ?6) OR m.priority = ?4 AND (m.visible_at, m.id) < (?6, ?7))
        LIMIT ?8
    )
) AS ahead, (
    SELECT count(*) FROM tickwork_messages AS m
    -- The signs keep the planner from reading all messages of the tenant: few are claimed.
    WHERE m.holder IN (SELECT id FROM tickwork_nodes) AND m.state = 'claimed'
        AND +m.queue_id = ?1 AND +m.tenant = ?2 AND +m.receiver = ?3
) AS under_way
