-- Deletes the message of an alarm that was replaced, unless it is claimed.
DELETE FROM tickwork_messages WHERE tenant = ?1 AND id = ?2 AND state = 'ready' AND key IS NULL
