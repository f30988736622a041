-- Whether a schedule has a message of a later slot.
SELECT 1 FROM tickwork_messages
WHERE tenant = ?1 AND schedule_id = ?2 AND schedule_id IS NOT NULL AND run = 0 AND slot > ?3
LIMIT 1
