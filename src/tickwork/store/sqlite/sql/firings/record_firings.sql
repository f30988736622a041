-- Records attempts at slots, and runs of slots that did not fire.
INSERT INTO tickwork_firings (
    tenant, schedule_id, slot, run, attempt, due_at, catch_up, id, status, reason, started_at,
    finished_at, result_code, excerpt, channels, count, last_slot
)
VALUES /*each*/ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) /*each*/
