-- Completes the schedules of slots, found by the rowids of their messages (`?1`), that have no next slot and
-- no message of a later one. (The plus keeps SQLite from searching by status.)
UPDATE tickwork_schedules SET version = version + 1, status = 'completed', changed_at = ?2
WHERE place IN (
    SELECT s.place
    FROM json_each(?1) AS seen
    CROSS JOIN tickwork_messages AS m ON m.place = seen.value
    CROSS JOIN tickwork_schedules AS s ON s.tenant = m.tenant AND s.id = m.schedule_id
    WHERE +s.status IN ('active', 'paused') AND s.next_slot IS NULL
        AND NOT EXISTS (
            SELECT 1 FROM tickwork_messages AS later
            WHERE later.tenant = m.tenant AND later.schedule_id = m.schedule_id
                AND later.schedule_id IS NOT NULL AND later.run = 0 AND later.slot > m.slot
        )
)
