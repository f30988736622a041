-- Stores schedules of one tenant, except for those whose id exists.
INSERT INTO tickwork_schedules (
    tenant, created_at, updated_at, changed_at, queue_id, /*new_schedule*/
)
VALUES /*each*/ (?1, ?2, ?2, ?2, ?, /*new_schedule_values*/) /*each*/
ON CONFLICT (tenant, id) DO NOTHING
