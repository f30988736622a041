-- Stores when a key was last used, unless that was stored a moment ago.
UPDATE tickwork_api_keys
SET last_used_at = coalesce($1, clock_timestamp())
WHERE id = $2
    AND (last_used_at IS NULL OR last_used_at <= coalesce($1, clock_timestamp()) - make_interval(secs => $3))
