-- Stores the health of endpoints, and disables those with a reason. A breaker that opens looks for a probe when it
-- may be probed.
UPDATE tickwork_endpoints AS e
SET failures_in_row = new.failures_in_row, failing_since = new.failing_since, open_until = new.open_until,
    openings = new.openings, notices = new.notices,
    probe_at = CASE WHEN new.open_until IS DISTINCT FROM e.open_until THEN new.open_until ELSE e.probe_at END,
    disabled_at = CASE WHEN new.reason IS NULL THEN e.disabled_at ELSE $1 END,
    disabled_reason = coalesce(new.reason, e.disabled_reason)
FROM unnest(
    $2::uuid[], $3::integer[], $4::timestamptz[], $5::timestamptz[], $6::integer[], $7::integer[], $8::text[]
) AS new (id, failures_in_row, failing_since, open_until, openings, notices, reason)
WHERE e.id = new.id
