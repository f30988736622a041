-- Extends a pull lease that is still claimed.
UPDATE tickwork_messages
SET lease_until = coalesce($1::timestamptz, clock_timestamp()) + make_interval(secs => $6)
WHERE tenant = $2 AND id = $3 AND claim = $4 AND holder = $5 AND lease_until IS NOT NULL
RETURNING id
