-- Deletes recorded events past their retention, the oldest first.
DELETE FROM tickwork_events_done WHERE (tenant, queue_id, event_id) IN (
    SELECT tenant, queue_id, event_id FROM tickwork_events_done
    WHERE done_at <= ?1
    ORDER BY done_at
    LIMIT ?2
)
