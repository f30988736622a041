-- Schedules of a tenant that are parked, or whose last slot failed: since the change, or the slot.
SELECT id, name, status = 'parked' AS is_parked, CASE status WHEN 'parked' THEN changed_at ELSE last_slot END AS since,
    last_error AS error
FROM tickwork_schedules
WHERE tenant = $1 AND (status = 'parked' OR (status = 'active' AND last_status IN ('failed', 'dead', 'expired')))
ORDER BY id
LIMIT $2
