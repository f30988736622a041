-- Moves a locked schedule back to the decided slot after slots of it were withdrawn. Its last slot becomes
-- the last one that is or was a message.
UPDATE tickwork_schedules AS s
SET next_slot = $3, due_at = $4, fired = $5,
    last_slot = greatest(
        (
            SELECT slot FROM tickwork_messages AS m
            WHERE m.tenant = $1 AND m.schedule_id = $2 AND m.schedule_id IS NOT NULL
                AND m.run = 0 AND m.slot <= s.last_slot
            ORDER BY slot DESC LIMIT 1
        ),
        (
            SELECT slot FROM tickwork_firings AS f
            WHERE f.tenant = $1 AND f.schedule_id = $2 AND f.slot <= s.last_slot
                AND f.run = 0 AND f.attempt > 0
            ORDER BY slot DESC LIMIT 1
        )
    )
WHERE s.tenant = $1 AND s.id = $2
