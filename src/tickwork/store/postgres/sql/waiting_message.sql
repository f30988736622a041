-- One message that nobody holds, with its key.
SELECT tenant, queue_id, id, key FROM tickwork_messages
WHERE queue_id = $1 AND id = $2 AND state <> 'claimed' AND ($3::text IS NULL OR tenant = $3)
