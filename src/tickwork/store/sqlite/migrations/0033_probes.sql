-- The breaker of an endpoint pulls a waiting delivery forward as its probe: `probe_at` is when it looks for one,
-- `probe_message_id` and `probe_back_at` are the message that it pulled last and when that was due by itself.
ALTER TABLE tickwork_endpoints ADD COLUMN probe_at INTEGER;
ALTER TABLE tickwork_endpoints ADD COLUMN probe_message_id BLOB;
ALTER TABLE tickwork_endpoints ADD COLUMN probe_back_at INTEGER;
CREATE INDEX tickwork_endpoints_probe ON tickwork_endpoints (probe_at) WHERE probe_at IS NOT NULL;

-- An endpoint is failing since its fifth failure in a row, and the breaker of a disabled one lets nothing through.
UPDATE tickwork_endpoints SET failing_since = NULL WHERE failures_in_row < 5;
UPDATE tickwork_endpoints SET open_until = NULL WHERE disabled_at IS NOT NULL;
UPDATE tickwork_endpoints SET probe_at = open_until WHERE open_until IS NOT NULL;
