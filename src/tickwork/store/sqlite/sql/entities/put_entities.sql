-- Stores the state of an entity, and adds the bytes of its storage (`?11`).
INSERT INTO tickwork_entities AS e (
    tenant, id, type, key, changed_by, schema_version, alarm_id, alarm_at, dead_alarm_id, schedules, bytes,
    created_at, updated_at
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)
ON CONFLICT (tenant, id) DO UPDATE SET
    changed_by = excluded.changed_by, schema_version = excluded.schema_version, alarm_id = excluded.alarm_id,
    alarm_at = excluded.alarm_at, dead_alarm_id = excluded.dead_alarm_id, schedules = excluded.schedules,
    bytes = e.bytes + excluded.bytes, updated_at = excluded.updated_at
