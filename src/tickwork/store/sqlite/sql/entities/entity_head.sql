-- The state of an entity, the result that is kept under an idempotency key, and its storage if that is small: keys and
-- values in hexadecimal, as JSON.
SELECT
    e.changed_by, e.schema_version, e.bytes, e.alarm_id, e.alarm_at, e.dead_alarm_id, e.schedules,
    r.key, r.fingerprint, r.value, r.error,
    CASE WHEN e.bytes <= /*small_storage_bytes_max*/ THEN (
        SELECT json_group_object(name, hex(value)) FROM tickwork_entity_storage WHERE tenant = ?1 AND entity_id = ?2
    ) END
FROM (SELECT 1) AS one
LEFT JOIN tickwork_entities AS e ON e.tenant = ?1 AND e.id = ?2
LEFT JOIN tickwork_entity_results AS r
    ON r.tenant = ?1 AND r.entity_id = ?2 AND r.key = ?3 AND r.done_at > ?4 - /*result_retention_seconds*/ * 1000000
