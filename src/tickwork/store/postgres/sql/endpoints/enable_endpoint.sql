-- Enables an endpoint and makes it healthy.
UPDATE tickwork_endpoints AS e
SET disabled_at = NULL, disabled_reason = NULL, failures_in_row = 0, failing_since = NULL,
    open_until = NULL, openings = 0, notices = 0, probe_at = NULL, probe_message_id = NULL, probe_back_at = NULL,
    updated_at = coalesce($1::timestamptz, clock_timestamp())
WHERE e.id = $2 AND ($3::text IS NULL OR e.tenant = $3)
RETURNING /*endpoint*/
