-- Adds bytes to the backlog of capped queues, or subtracts a negative number. For queues that enforce the cap
-- it adds only if the result is within the cap. Bytes that are not checked are added to it afterwards.
INSERT INTO tickwork_backlogs AS known (queue_id, stripe, bytes)
SELECT new.queue_id, pg_current_xact_id()::text::bigint % /*stripes*/, new.bytes + new.unchecked
FROM unnest($1::uuid[], $2::bigint[], $3::boolean[], $4::bigint[])
    AS new (queue_id, bytes, is_bound, unchecked)
JOIN tickwork_queues AS q ON q.id = new.queue_id
WHERE NOT new.is_bound OR new.bytes + (
    SELECT coalesce(sum(bytes), 0) FROM tickwork_backlogs WHERE queue_id = new.queue_id
) <= (q.settings ->> 'backlog_bytes_max')::bigint
ORDER BY new.queue_id
ON CONFLICT (queue_id, stripe) DO UPDATE SET bytes = known.bytes + excluded.bytes
RETURNING queue_id
