-- Disables an endpoint, unless it is disabled already. Nothing is sent when its breaker would have let it through.
UPDATE tickwork_endpoints
SET disabled_reason = CASE WHEN disabled_at IS NULL THEN ?4 ELSE disabled_reason END,
    disabled_at = coalesce(disabled_at, ?1), open_until = NULL, probe_at = NULL, updated_at = ?1
WHERE id = ?2 AND (?3 IS NULL OR tenant = ?3)
RETURNING /*returned_endpoint*/
