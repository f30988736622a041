-- The end of the last of so many chunks of a tenant, newest first; none if there are fewer.
SELECT ended_at FROM tickwork_message_history
WHERE tenant = $1 AND ended_at <= $2 AND ended_at >= $3
ORDER BY ended_at DESC
OFFSET $4 LIMIT 1
