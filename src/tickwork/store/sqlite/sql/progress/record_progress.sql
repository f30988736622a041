-- Records a row of a work key. A row of the same name is replaced.
INSERT INTO tickwork_progress (tenant, work, name, value, recorded_at)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (tenant, work, name)
    DO UPDATE SET value = excluded.value, recorded_at = excluded.recorded_at
