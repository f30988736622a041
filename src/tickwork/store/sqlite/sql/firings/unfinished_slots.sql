-- The slots of a schedule within two instants that are messages: still to come, waiting, or under way, in whichever run.
SELECT DISTINCT slot FROM tickwork_messages
WHERE tenant = ?1 AND schedule_id = ?2 AND schedule_id IS NOT NULL AND slot >= ?3 AND slot <= ?4
