-- Locks a schedule that is not deleted, until the transaction ends.
SELECT /*schedule*/, s.queue_id FROM tickwork_schedules AS s
WHERE s.tenant = $1 AND s.id = $2 AND s.status <> 'deleted'
FOR UPDATE
