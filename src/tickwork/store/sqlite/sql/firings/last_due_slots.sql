-- The last slot of a schedule that is due by then or was processed, of those that have a message or a record.
SELECT ?3 AS id, max(slot) AS slot FROM (
    SELECT * FROM (
        SELECT slot FROM tickwork_messages
        WHERE tenant = ?2 AND schedule_id = ?3 AND schedule_id IS NOT NULL AND run = 0
            AND coalesce(due_at, visible_at) <= ?1
        ORDER BY slot DESC
        LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT slot FROM tickwork_firings
        WHERE tenant = ?2 AND schedule_id = ?3 AND run = 0
            AND status IN (/*handled*/)
        ORDER BY slot DESC
        LIMIT 1
    )
)
