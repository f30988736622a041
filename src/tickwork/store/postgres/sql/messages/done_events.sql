-- In which of these queues an event of a tenant is recorded as done.
SELECT queue_id FROM tickwork_events_done
WHERE tenant = $1 AND queue_id = ANY ($2::uuid[]) AND event_id = $3
