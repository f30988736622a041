-- Claims one ready message that nobody has claimed since it was read: its claim number is one below the given.
UPDATE tickwork_messages
SET state = 'claimed', claim = $4, holder = $5, claimed_at = coalesce($1::timestamptz, clock_timestamp()),
    lease_until = NULL
WHERE tenant = $2 AND id = $3 AND claim = $4 - 1 AND state = 'ready'
RETURNING id
