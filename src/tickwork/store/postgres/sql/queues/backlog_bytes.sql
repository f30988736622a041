-- The bytes of the bodies that wait in queues with a cap.
SELECT queue_id AS id, sum(bytes)::bigint AS bytes FROM tickwork_backlogs WHERE queue_id = ANY($1::uuid[])
GROUP BY queue_id
