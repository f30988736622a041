-- Deletes what waits behind others of its key: of one tenant, or for the system of all.
DELETE FROM tickwork_messages
WHERE queue_id = ?1 AND state = 'held' AND key IS NOT NULL AND (?2 IS NULL OR tenant = ?2)
