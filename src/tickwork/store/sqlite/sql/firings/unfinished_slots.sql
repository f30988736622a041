-- The slots between two instants that are messages: not due, ready or claimed, in any run.
SELECT DISTINCT slot FROM tickwork_messages
WHERE tenant = ?1 AND schedule_id = ?2 AND schedule_id IS NOT NULL AND slot >= ?3 AND slot <= ?4
