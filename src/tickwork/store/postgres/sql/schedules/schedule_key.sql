-- The queue of a schedule, and whether its slots are ordered.
SELECT tenant, id, queue_id, overlap FROM tickwork_schedules WHERE tenant = $1 AND id = $2
