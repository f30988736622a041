-- Whether an event of a tenant is recorded as done in a queue, or in any.
SELECT EXISTS (
    SELECT FROM tickwork_queues AS q
    WHERE (q.tenant = $1 OR q.tenant IS NULL) AND ($3::text IS NULL OR q.name = $3) AND EXISTS (
        SELECT FROM tickwork_events_done AS done
        WHERE done.tenant = $1 AND done.queue_id = q.id AND done.event_id = $2
    )
) AS was_handled
