-- The bodies of messages, by rowid.
SELECT place, body FROM tickwork_messages WHERE place IN (SELECT value FROM json_each(?1))
