-- Ends the claim of a run's message, if it is claimed, and makes it visible now.
UPDATE tickwork_messages
SET state = 'ready', holder = NULL, claimed_at = NULL, lease_until = NULL, lost = 0,
    visible_at = coalesce($1::timestamptz, clock_timestamp())
WHERE tenant = $2 AND id = $3
