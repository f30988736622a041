-- Enables an endpoint and makes it healthy.
UPDATE tickwork_endpoints
SET disabled_at = NULL, disabled_reason = NULL, failures_in_row = 0, failing_since = NULL,
    open_until = NULL, openings = 0, notices = 0, probe_at = NULL, probe_message_id = NULL, probe_back_at = NULL,
    updated_at = ?1
WHERE id = ?2 AND (?3 IS NULL OR tenant = ?3)
RETURNING /*returned_endpoint*/
