-- Records an attempt at a slot.
INSERT INTO tickwork_firings (
    tenant, schedule_id, slot, run, attempt, due_at, catch_up, id, status, reason, started_at,
    finished_at, result_code, excerpt, channels
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
