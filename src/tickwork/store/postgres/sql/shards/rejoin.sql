-- Makes a node whose lease has not expired a scheduler.
UPDATE tickwork_nodes SET roles = array_append(array_remove(roles, 'scheduler'), 'scheduler')
WHERE id = $2 AND expires_at > coalesce($1::timestamptz, clock_timestamp())
RETURNING id
