-- Moves the due times of planned slots that no worker has claimed by `?2` microseconds, and their slots with
-- them. A slot whose new time is in use keeps its old one.
UPDATE tickwork_messages
SET visible_at = visible_at + ?2, due_at = due_at + ?2, expires_at = expires_at + ?2,
    slot = slot + CASE WHEN EXISTS (
        SELECT 1 FROM tickwork_messages AS other
        WHERE other.tenant = tickwork_messages.tenant AND other.schedule_id = tickwork_messages.schedule_id
            AND other.schedule_id IS NOT NULL AND other.slot = tickwork_messages.slot + ?2 AND other.run = 0
    ) THEN 0 ELSE ?2 END
WHERE place IN (
    SELECT m.place
    FROM json_each(?1) AS moved
    CROSS JOIN tickwork_schedules AS s ON s.place = moved.value
    CROSS JOIN tickwork_messages AS m ON m.tenant = s.tenant AND m.schedule_id = s.id
        AND m.schedule_id IS NOT NULL
    WHERE m.run = 0 AND m.claim = 0 AND m.state <> 'claimed'
)
