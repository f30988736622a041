-- Schedules of a tenant that are parked, that paused themselves, or whose last slot failed: since the change, or the
-- slot. One that is over has no slot left; it is left out after a later run of it succeeded.
SELECT * FROM (
    SELECT id, name, status = 'parked' AS is_parked, CASE status WHEN 'active' THEN last_slot ELSE changed_at END AS since,
        last_error AS error, next_slot IS NULL AS is_over, status = 'paused' AS is_paused
    FROM tickwork_schedules
    WHERE tenant = ?1 AND (status = 'parked' OR (status = 'active' AND last_status IN ('failed', 'dead', 'expired')))
        AND NOT (next_slot IS NULL AND coalesce(last_status = 'succeeded', false))
    ORDER BY id
    LIMIT ?2
)
UNION ALL
SELECT * FROM (
    SELECT id, name, status = 'parked' AS is_parked, CASE status WHEN 'active' THEN last_slot ELSE changed_at END AS since,
        last_error AS error, next_slot IS NULL AS is_over, status = 'paused' AS is_paused
    FROM tickwork_schedules
    WHERE tenant = ?1 AND status = 'paused' AND on_dead = 'pause' AND last_status = 'dead'
    ORDER BY id
    LIMIT ?2
)
LIMIT ?2
