-- The values that all messages of a schedule share.
SELECT place, tenant, id, queue_id, type, length(body), overlap, terms
FROM tickwork_schedules WHERE place = ?1
