-- Stores the health of an endpoint, and disables it if there is a reason (`?8`). A breaker that opens
-- looks for a probe when it may be probed.
UPDATE tickwork_endpoints
SET failures_in_row = ?3, failing_since = ?4, open_until = ?5, openings = ?6, notices = ?7,
    probe_at = CASE WHEN open_until IS NOT ?5 THEN ?5 ELSE probe_at END,
    disabled_at = CASE WHEN ?8 IS NULL THEN disabled_at ELSE ?1 END,
    disabled_reason = coalesce(?8, disabled_reason)
WHERE id = ?2
