-- Keeps the breaker of an endpoint open until a time, if it was open until now: one caller succeeds.
UPDATE tickwork_endpoints SET open_until = ?3, probe_at = ?3 WHERE id = ?1 AND open_until <= ?2
