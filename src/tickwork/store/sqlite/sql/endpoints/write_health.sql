-- Stores the health of an endpoint, and disables it if there is a reason (`?8`). A breaker that opens
-- looks for a probe when it may be probed.
UPDATE tickwork_endpoints
SET failures_in_row = ?2, failing_since = ?3, open_until = ?4, openings = ?5, notices = ?6,
    probe_at = CASE WHEN open_until IS NOT ?4 THEN ?4 ELSE probe_at END,
    disabled_at = CASE WHEN ?8 IS NULL THEN disabled_at ELSE ?7 END,
    disabled_reason = coalesce(?8, disabled_reason)
WHERE id = ?1
