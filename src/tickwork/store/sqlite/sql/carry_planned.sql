-- What is planned of some schedules and nobody has becomes due by so many microseconds later.
UPDATE tickwork_messages
SET visible_at = visible_at + ?2, due_at = due_at + ?2, expires_at = expires_at + ?2
WHERE place IN (
    SELECT m.place
    FROM json_each(?1) AS moved
    CROSS JOIN tickwork_schedules AS s ON s.place = moved.value
    CROSS JOIN tickwork_messages AS m ON m.tenant = s.tenant AND m.schedule_id = s.id
        AND m.schedule_id IS NOT NULL
    WHERE m.run = 0 AND m.claim = 0 AND m.state <> 'claimed'
)
