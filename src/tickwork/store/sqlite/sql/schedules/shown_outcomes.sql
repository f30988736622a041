-- The outcomes stored on schedules whose slots have ended, except for deleted ones.
SELECT s.tenant, s.id, s.place, s.error_count, s.last_error, s.last_status
FROM (
    SELECT column1 AS tenant, column2 AS id FROM (VALUES /*each*/ (?, ?) /*each*/)
) AS ended
CROSS JOIN tickwork_schedules AS s ON s.tenant = ended.tenant AND s.id = ended.id
WHERE s.status <> 'deleted'
