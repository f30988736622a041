-- Disables an endpoint, unless it is disabled already. Nothing is sent when its breaker would have let it through.
UPDATE tickwork_endpoints
SET disabled_reason = CASE WHEN disabled_at IS NULL THEN ?3 ELSE disabled_reason END,
    disabled_at = coalesce(disabled_at, ?4), open_until = NULL, probe_at = NULL, updated_at = ?4
WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)
