-- Deletes messages by rowid. The same transaction has checked their claims.
DELETE FROM tickwork_messages WHERE place IN (SELECT value FROM json_each(?1))
