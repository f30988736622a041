-- Makes the message of a run visible now, if it waits.
UPDATE tickwork_messages SET visible_at = coalesce($1::timestamptz, clock_timestamp())
WHERE tenant = $2 AND id = $3 AND state = 'ready' AND visible_at > coalesce($1::timestamptz, clock_timestamp())
