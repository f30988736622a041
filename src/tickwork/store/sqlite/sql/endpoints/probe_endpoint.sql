-- Keeps the breaker of an endpoint open for some seconds, if it was open until now: one caller succeeds.
UPDATE tickwork_endpoints
SET open_until = ?1 + CAST(round(?3 * 1000000) AS INTEGER), probe_at = ?1 + CAST(round(?3 * 1000000) AS INTEGER)
WHERE id = ?2 AND open_until <= ?1
RETURNING id
