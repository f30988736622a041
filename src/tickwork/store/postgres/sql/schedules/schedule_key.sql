-- Where the slots of a schedule go, and whether they stand in line.
SELECT tenant, id, queue_id, overlap FROM tickwork_schedules WHERE tenant = $1 AND id = $2
