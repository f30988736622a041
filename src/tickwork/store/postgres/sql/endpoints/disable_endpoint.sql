-- Disables an endpoint, unless it is disabled already. Nothing is sent when its breaker would have let it through.
UPDATE tickwork_endpoints AS e
SET disabled_reason = CASE WHEN e.disabled_at IS NULL THEN $4 ELSE e.disabled_reason END,
    disabled_at = coalesce(e.disabled_at, $1::timestamptz, clock_timestamp()),
    open_until = NULL, probe_at = NULL, updated_at = coalesce($1::timestamptz, clock_timestamp())
WHERE e.id = $2 AND ($3::text IS NULL OR e.tenant = $3)
RETURNING /*endpoint*/
