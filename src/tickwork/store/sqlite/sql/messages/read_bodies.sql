-- The bodies of messages, by where they lie.
SELECT place, body FROM tickwork_messages WHERE place IN (SELECT value FROM json_each(?1))
