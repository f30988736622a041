-- Shows an attempt on its delivery.
UPDATE tickwork_deliveries
SET attempts = attempts + 1, last_attempt_at = ?2, last_code = ?3, last_error = ?4,
    delivered_at = coalesce(delivered_at, iif(?5 IS NULL, NULL, coalesce(arrived_at, ?5))),
    dead_at = iif(?5 IS NULL, dead_at, NULL)
WHERE id = ?1
