-- Updates a schedule as decided. If slots were withdrawn (`$29`), searches again for the last slot that
-- became a message. Resets the clock shift, because the rule contains its own start.
UPDATE tickwork_schedules AS s
SET version = s.version + 1, status = $4, next_slot = $5, due_at = $6, look_at = $7, fired = $8,
    runs = $9, error_count = $10, last_error = $11, name = $12, queue_id = $13, /*definition_set $14*/, shift = 0, updated_at = $1,
    changed_at = CASE WHEN s.status = $4 THEN s.changed_at ELSE $1 END,
    last_slot = CASE WHEN NOT $29::boolean THEN greatest(s.last_slot, $30::timestamptz)
        ELSE greatest(
            $30::timestamptz,
            (
                SELECT slot FROM tickwork_messages AS m
                WHERE m.tenant = $2 AND m.schedule_id = $3 AND m.schedule_id IS NOT NULL AND m.run = 0
                    AND m.slot <= s.last_slot
                ORDER BY slot DESC LIMIT 1
            ),
            (
                SELECT slot FROM tickwork_firings AS f
                WHERE f.tenant = $2 AND f.schedule_id = $3 AND f.slot <= s.last_slot AND f.run = 0
                    AND f.attempt > 0
                ORDER BY slot DESC LIMIT 1
            )
        )
    END
WHERE s.tenant = $2 AND s.id = $3
RETURNING /*schedule*/
