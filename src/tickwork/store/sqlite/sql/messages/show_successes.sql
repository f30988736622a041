-- Updates the schedules of succeeded slots, found by the rowids of their messages. Leaves out schedules that
-- show a success already.
UPDATE tickwork_schedules SET error_count = ?2, last_error = ?3, last_status = ?4
WHERE place IN (
    SELECT s.place
    FROM json_each(?1) AS seen
    CROSS JOIN tickwork_messages AS m ON m.place = seen.value
    CROSS JOIN tickwork_schedules AS s ON s.tenant = m.tenant AND s.id = m.schedule_id
    WHERE m.slot IS NOT NULL AND s.status <> 'deleted'
        AND (s.error_count, s.last_error, s.last_status) IS NOT (?2, ?3, ?4)
)
