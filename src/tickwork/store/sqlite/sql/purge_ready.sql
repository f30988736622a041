-- Deletes what waits in a queue: of one tenant, or for the system of all.
DELETE FROM tickwork_messages WHERE queue_id = ?1 AND state = 'ready' AND (?2 IS NULL OR tenant = ?2)
