-- Stores the state of an entity, and adds the bytes of its storage (`?11`).
INSERT INTO tickwork_entities AS e (
    tenant, id, type, key, changed_by, schema_version, alarm_id, alarm_at, dead_alarm_id, schedules, bytes,
    created_at, updated_at
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)
ON CONFLICT (tenant, id) DO UPDATE SET
    changed_by = excluded.changed_by, schema_version = excluded.schema_version, schedules = excluded.schedules,
    -- An alarm that the call keeps may have become a dead letter meanwhile.
    alarm_id = CASE WHEN e.dead_alarm_id = excluded.alarm_id THEN NULL ELSE excluded.alarm_id END,
    alarm_at = CASE WHEN e.dead_alarm_id = excluded.alarm_id THEN NULL ELSE excluded.alarm_at END,
    dead_alarm_id = CASE WHEN e.dead_alarm_id = excluded.alarm_id THEN e.dead_alarm_id ELSE excluded.dead_alarm_id END,
    bytes = e.bytes + excluded.bytes, updated_at = excluded.updated_at
