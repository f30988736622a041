-- What the messages of a schedule have in common.
SELECT place, tenant, id, queue_id, type, length(body), overlap, terms
FROM tickwork_schedules WHERE place = ?1
