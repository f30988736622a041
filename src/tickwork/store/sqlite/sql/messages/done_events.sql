-- Which of these events of a tenant are recorded as done in a queue.
SELECT event_id FROM tickwork_events_done
WHERE tenant = ?1 AND queue_id = ?2 AND event_id IN (SELECT value FROM json_each(?3))
