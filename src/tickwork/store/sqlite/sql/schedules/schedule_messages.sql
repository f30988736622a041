-- The messages of a schedule by slot and run, from a slot on.
SELECT /*columns*/ FROM tickwork_messages AS m
WHERE m.tenant = ?1 AND m.schedule_id = ?2 AND m.schedule_id IS NOT NULL
    AND m.slot >= ?4
ORDER BY m.slot, m.run
LIMIT ?3
