-- Returns the number of messages with a key, up to a limit.
SELECT count(*) AS count FROM (
    SELECT 1 FROM tickwork_messages WHERE queue_id = ?1 AND tenant = ?2 AND key = ?3 LIMIT ?4
)
