-- The last slot of a schedule up to an instant that is or was a message; 0 if there is none.
SELECT max(
    coalesce((
        SELECT slot FROM tickwork_messages
        WHERE tenant = ?1 AND schedule_id = ?2 AND schedule_id IS NOT NULL AND slot <= ?3 AND run = 0
        ORDER BY slot DESC LIMIT 1
    ), 0),
    coalesce((
        SELECT slot FROM tickwork_firings
        WHERE tenant = ?1 AND schedule_id = ?2 AND slot <= ?3 AND run = 0 AND attempt > 0
        ORDER BY slot DESC LIMIT 1
    ), 0)
)
